"""What can go wrong for a user, and the exit code a scheduler sees for it.

Only these exceptions are turned into a one-line message by the command; anything else is a defect of the
package and keeps its traceback. Messages that are no errors go through ``logging.getLogger("smcda")``.
"""

import logging
import sys


class SmcdaError(Exception):
    """A failure with a message for the user, in one line, and an exit code for the scheduler."""

    exit_code = 1

    def __str__(self) -> str:
        # A name that is quoted in it may contain anything.
        return " ".join(super().__str__().splitlines())


class BadInput(SmcdaError):
    """A value, file or folder breaks a rule; the message names it, the rule and the remedy."""

    exit_code = 2


class Diverged(SmcdaError):
    """Every particle's log-density stopped being finite."""

    exit_code = 3


class Stopped(SmcdaError):
    """A signal stopped the run; a checkpoint is saved, and the same command resumes (EX_TEMPFAIL)."""

    exit_code = 75


class _OneLineOnStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Print one line, whatever a name that is quoted in it contains."""
        print(f"smcda: {' '.join(record.getMessage().splitlines())}", file=sys.stderr, flush=True)


def configure_logging() -> None:
    """Print the package's messages on standard error, one line each; for the command, also when quiet."""
    logger = logging.getLogger("smcda")
    logger.handlers = [_OneLineOnStderr()]
    logger.setLevel(logging.INFO)
    # Importing Orbax gives the root logger a handler, which would print every line once more.
    logger.propagate = False

"""What can go wrong for a user, and the exit code a scheduler sees for it.

Only these exceptions are turned into a one-line message by the command; anything else is
a defect of the package and keeps its traceback.
"""

import sys


def notice(line: str) -> None:
    """Tell the user, in one line, of something that is not an error; quiet runs say it too."""
    print(f"smcda: {' '.join(line.splitlines())}", file=sys.stderr, flush=True)


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
    """A signal asked the run to stop, and starting it again goes on (EX_TEMPFAIL of sysexits.h)."""

    exit_code = 75


def of_the_system(error: OSError) -> SmcdaError:
    """A failure of the system, such as a full disk, in one line."""
    return SmcdaError(f"{error.filename or 'file'}: {error.strerror or error}")

"""What can go wrong for a user, and the exit code a scheduler sees for it.

Only these exceptions are turned into a one-line message by the command; anything else is
a defect of the package and keeps its traceback.
"""


class SmcdaError(Exception):
    """A failure with a message for the user and an exit code for the scheduler."""

    exit_code = 1


class BadInput(SmcdaError):
    """A value, file or folder breaks a rule; the message names it, the rule and the remedy."""

    exit_code = 2


class Diverged(SmcdaError):
    """Every particle's log-density stopped being finite."""

    exit_code = 3

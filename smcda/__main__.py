"""`python -m smcda`: the same as the command `smcda`."""

import sys

from smcda.cli import main

if __name__ == "__main__":
    sys.exit(main())

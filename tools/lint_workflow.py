"""Run Snakemake's linter and fail on anything it says, but for one rule.

The linter wants a conda environment or container a rule. The whole workflow runs in the one Python
environment that `pip install` makes, so that rule is the only one left out.
"""

import re
import subprocess
import sys
from pathlib import Path

LEFT_OUT = "Specify a conda environment or container for each rule."


def main() -> int:
    """Print every lint that counts, and fail if there is one."""
    snakemake = Path(sys.executable).with_name("snakemake")
    answer = subprocess.run([snakemake, "--lint"], capture_output=True, text=True)
    said = answer.stdout + answer.stderr
    places = re.findall(r"^(Lints for .*:|    \* .*)$", said, re.MULTILINE)
    lints = [line for line in places if line.startswith("    * ") and LEFT_OUT not in line]
    # A workflow that can't be read fails too, but has no lints.
    if lints or (answer.returncode != 0 and not places):
        print(said)
        return 1
    print("snakemake --lint: nothing but missing conda environments")
    return 0


if __name__ == "__main__":
    sys.exit(main())

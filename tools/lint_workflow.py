"""Run Snakemake's linter and fail on anything it reports, but for two of its rules.

It wants a conda environment or container per rule: the whole workflow runs in the one Python environment that
`pip install` makes. It wants no `config` in shell commands: what no result depends on (where compiled
programs are cached, how often checkpoints are saved) is read there, because as a param it would rerun every
run.
"""

import re
import subprocess
import sys
from pathlib import Path

LEFT_OUT = (
    "Specify a conda environment or container for each rule.",
    "Shell command directly uses variable config from outside of the rule",
)


def main() -> int:
    """Print every lint that counts, and fail if there is one."""
    snakemake = Path(sys.executable).with_name("snakemake")
    answer = subprocess.run([snakemake, "--lint"], capture_output=True, text=True)
    output = answer.stdout + answer.stderr
    places = re.findall(r"^(Lints for .*:|    \* .*)$", output, re.MULTILINE)
    lints = [line for line in places if line.startswith("    * ") and line[6:-1] not in LEFT_OUT]
    # A workflow that can't be read fails too, but has no lints.
    if lints or (answer.returncode != 0 and not places):
        print(output)
        return 1
    print("snakemake --lint: clean")
    return 0


if __name__ == "__main__":
    sys.exit(main())

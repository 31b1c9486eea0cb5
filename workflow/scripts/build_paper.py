"""Build the paper in a folder of its own, so that nothing but the PDF comes out.

Time stamps are fixed, which makes the PDF the same bytes whenever its inputs are the same.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

COMMAND = ["latexmk", "-pdf", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
FIXED_TIME = {"SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1"}


def main(job: Any) -> None:
    """Lay the inputs out as `main.tex` expects them and run latexmk, which writes into the rule's log."""
    if shutil.which("latexmk") is None:
        advice = f"latexmk is not installed: install (Debian) {job.params.packages}"
        Path(job.log[0]).write_text(advice + "\n")
        sys.exit(advice)
    with tempfile.TemporaryDirectory() as name, Path(job.log[0]).open("w") as log:
        folder = Path(name)
        shutil.copy(job.input.main, folder / "main.tex")
        shutil.copy(job.input.bibliography, folder / "refs.bib")
        shutil.copy(job.input.numbers, folder / "numbers.tex")
        for part, source in (("figures", job.input.figures), ("tables", job.input.tables)):
            (folder / part).mkdir()
            for file in source:
                shutil.copy(file, folder / part)
        env = os.environ | FIXED_TIME
        done = subprocess.run(COMMAND, cwd=folder, env=env, check=False, stdout=log, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit(f"the paper does not build: see {job.log[0]}")
        shutil.copy(folder / "main.pdf", job.output.pdf)


if "snakemake" in globals():
    main(globals()["snakemake"])

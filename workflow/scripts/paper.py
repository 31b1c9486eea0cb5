"""Build the paper in a folder of its own, so that nothing but the PDF comes out.

Time stamps are fixed, which makes the PDF the same bytes whenever its inputs are the same.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from smcda._io import atomic_write


def build(
    main: Path, bibliography: Path, numbers: Path, figures: Sequence[Path], tables: Sequence[Path], pdf: Path
) -> None:
    """Lay the inputs out as `main.tex` expects them and run latexmk; its output goes to stdout."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in (main, bibliography, numbers):
            shutil.copy(file, folder / file.name)
        for part, files in (("figures", figures), ("tables", tables)):
            (folder / part).mkdir()
            for file in files:
                shutil.copy(file, folder / part / file.name)
        command = ["latexmk", "-pdf", "-interaction=nonstopmode", "-halt-on-error", main.name]
        fixed = os.environ | {"SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1"}
        subprocess.run(
            command, cwd=folder, env=fixed, check=True, stdout=sys.stdout, stderr=subprocess.STDOUT
        )
        with atomic_write(pdf) as temporary:
            shutil.copy(folder / f"{main.stem}.pdf", temporary)


if "snakemake" in globals():
    job = globals()["snakemake"]
    with Path(job.log[0]).open("w") as log:
        if shutil.which("latexmk") is None:
            advice = f"no latexmk here: install (Debian) {job.params.packages}"
            print(advice, file=log)
            sys.exit(advice)
        sys.stdout = log
        paths = (Path(job.input.main), Path(job.input.bibliography), Path(job.input.numbers))
        figures, tables = ([Path(file) for file in files] for files in (job.input.figures, job.input.tables))
        try:
            build(*paths, figures, tables, Path(job.output.pdf))
        except subprocess.CalledProcessError:
            sys.exit(f"the paper does not build: see {job.log[0]}")

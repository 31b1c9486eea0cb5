"""The small-data study as one table: a row per run, from its metrics.json and trace.csv."""

from pathlib import Path
from typing import Any

import pandas as pd
from lib.script import run_script
from lib.small_data import COLUMNS, row_of


def main(job: Any) -> None:
    """Write the table."""
    rows = [row_of(*each) for each in zip(job.params.methods, map(Path, job.input.metrics), strict=True)]
    pd.DataFrame(rows, columns=COLUMNS).to_csv(job.output.runs, index=False)


run_script(main, globals())

"""The main study of the reference data: its runs, its traces, and mean and spread over seeds.

Every published cell has a row in the summary; one that was not run has no numbers. Seconds of different
machines make no speed-up.
"""

from typing import Any

import pandas as pd
from lib.reference import read_reference, select_study
from lib.script import run_script
from lib.tables import CELL, Key, read_cells, rows_of
from summarise import summarise


def summarise_reference(runs: pd.DataFrame, keys: list[Key]) -> pd.DataFrame:
    """Summarise some cells, with every seed that any run has."""
    seeds = sorted(set(runs["seed"]))
    summary = summarise(
        runs, [dict(zip(CELL, key, strict=True)) | {"seed": s} for key in keys for s in seeds]
    )
    for row, (dataset, scheme, kernel) in enumerate(keys):
        both = [rows_of(runs, (dataset, each, kernel)) for each in (scheme, "full_batch")]
        if pd.concat(both)["machine"].nunique() > 1:
            summary.loc[row, "speedup_seconds"] = float("nan")
    return summary


def main(job: Any) -> None:
    """Write the three tables."""
    runs, traces = (select_study(read_reference(file)) for file in (job.input.runs, job.input.traces))
    summary = summarise_reference(runs, list(read_cells(job.input.published).index))
    for table, file in ((runs, job.output.runs), (traces, job.output.traces), (summary, job.output.summary)):
        table.to_csv(file, index=False)


run_script(main, globals())

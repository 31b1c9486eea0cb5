"""The main study of the reference data: its runs, its traces, and mean and spread over seeds.

Every published cell has a row in the summary; one that was not run has no numbers. Seconds of different
machines make no speed-up.
"""

from typing import Any

import pandas as pd
from lib.reference import read_reference, select_study
from lib.script import run_script
from lib.tables import CELL, Cells, read_cells
from summarise import summarise


def summarise_reference(runs: pd.DataFrame, published: Cells) -> pd.DataFrame:
    """Summarise the published cells, with every seed that any run has."""
    seeds = sorted(set(runs["seed"]))
    expected = [dict(zip(CELL, key, strict=True)) | {"seed": seed} for key in published for seed in seeds]
    summary = summarise(runs, expected)
    for row, (dataset, scheme, kernel) in enumerate(summary[list(CELL)].itertuples(index=False)):
        same = (runs["dataset"] == dataset) & (runs["kernel"] == kernel)
        if runs[same & runs["scheme"].isin([scheme, "full_batch"])]["machine"].nunique() > 1:
            summary.loc[row, "speedup_seconds"] = float("nan")
    return summary


def main(job: Any) -> None:
    """Write the three tables."""
    runs, traces = (select_study(read_reference(file)) for file in (job.input.runs, job.input.traces))
    summary = summarise_reference(runs, read_cells(job.input.published))
    for table, file in ((runs, job.output.runs), (traces, job.output.traces), (summary, job.output.summary)):
        table.to_csv(file, index=False)


run_script(main, globals())

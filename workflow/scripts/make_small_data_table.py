"""One table of the small-data study, as LaTeX and as CSV of the same records."""

from pathlib import Path
from typing import Any

import pandas as pd
from lib.latex import render
from lib.script import run_script
from lib.small_data import read_small_data
from lib.small_labels import method_labels
from lib.small_tables import TABLES
from lib.tables import axis


def main(job: Any) -> None:
    """Write the table that the rule names."""
    records = TABLES[job.wildcards.table](read_small_data(Path(job.input.runs)))
    pd.DataFrame(records).to_csv(job.output.csv, index=False)
    context = {"records": records, "methods": method_labels(record["method"] for record in records)}
    rows = [tuple(r.get(name, "") for name in ("dataset", "method", "particles")) for r in records]
    sizes = sorted({int(r["n_train"]) for r in records if "n_train" in r})
    cells = {(*row, int(r["n_train"])): r for row, r in zip(rows, records, strict=True) if "n_train" in r}
    context |= {"rows": axis(rows, 0, 1, 2), "sizes": sizes, "cells": cells}
    Path(job.output.tex).write_text(render(job.input.template, **context))


run_script(main, globals())

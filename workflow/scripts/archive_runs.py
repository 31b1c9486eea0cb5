"""Add the finished runs of a study to the reference tables that are kept with the project.

    python workflow/scripts/archive_runs.py results/cpu

reads every finished run under `runs/` and `ablations/<name>/`, and every file under `curvature/`, and writes
`runs.csv`, `traces.csv` and `curvature.csv` in paper/reference. It samples nothing. A run made again replaces
its row; all other rows stay as they are. Machine, Python, commit and versions are those that the run itself
recorded in its metrics.json.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from summarise import finished_runs, read_run

from smcda._io import write_text

REFERENCE = Path(__file__).resolve().parents[2] / "paper" / "reference"
RUN = ["dataset", "scheme", "kernel", "seed", "ablation", "prior_scale", "batch_norm", "particles"]
"""What identifies a run."""

ORDER = ["ablation", "prior_scale", "dataset", "scheme", "kernel", "batch_norm", "particles", "seed"]
OPTIONAL = ("log_evidence", "ablation")


class NotArchivable(ValueError):
    """A result lacks something that its row needs."""


def run_row(run: dict[str, Any], file: Path, columns: list[str]) -> dict[str, str]:
    """One row of runs.csv from a run's metrics.json."""
    row = {name: as_text(value) for name, value in read_run(run, file).items()}
    row["prior_scale"] = row["prior_scale"] or "fan_in"
    check_complete(file, [name for name in columns if not row.get(name)])
    return {name: row[name] for name in columns}


def check_complete(file: Path, missing: list[str]) -> None:
    """Refuse a result that does not record something."""
    missing = [name for name in missing if name not in OPTIONAL]
    if missing:
        raise NotArchivable(f"{file} does not record its {', '.join(missing)}: make it again")


def trace_rows(metrics_file: Path, run: dict[str, str], columns: list[str]) -> pd.DataFrame:
    """The iterations of a run at which it was evaluated."""
    trace = pd.read_csv(metrics_file.with_name("trace.csv")).dropna(subset=["test_accuracy"])
    trace = trace.map(as_text).assign(**{name: run[name] for name in RUN})
    return trace[columns]


def curvature_rows(file: Path, columns: list[str]) -> pd.DataFrame:
    """What was found along one run; such a file has the columns of curvature.csv."""
    table = read(file)
    check_complete(file, [name for name in columns if name not in table])
    return table.assign(ablation="")[columns]


def as_text(value: Any) -> str:
    """Numbers in eight digits; nothing for what is not there."""
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return ""
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def read(file: Path) -> pd.DataFrame:
    """Read a table as text, so that writing it again changes no digit."""
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def merged(archived: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """All archived rows but those of runs that are made again, and the new ones."""
    made_again = pd.MultiIndex.from_frame(archived[RUN]).isin(pd.MultiIndex.from_frame(new[RUN]))
    table = pd.concat([archived[~made_again], new])
    columns = [*ORDER, "iteration"] if "iteration" in table else ORDER
    whole = ("seed", "particles", "iteration")
    return table.sort_values(columns, key=lambda c: c.astype(int) if c.name in whole else c, kind="stable")


def archive(study: Path, into: Path) -> dict[str, pd.DataFrame]:
    """Put the tables together; nothing is written yet."""
    tables = {name: read(into / f"{name}.csv") for name in ("runs", "traces", "curvature")}
    columns = {name: list(table.columns) for name, table in tables.items()}
    runs, files = finished_runs(study)
    followed = sorted(study.glob("curvature/*/*/seed-*.csv"))
    if not files and not followed:
        raise NotArchivable(f"{study} has no finished run: give the folder of a study, such as results/cpu")
    if files:
        rows = [run_row(run, file, columns["runs"]) for run, file in zip(runs, files, strict=True)]
        traces = [trace_rows(file, row, columns["traces"]) for file, row in zip(files, rows, strict=True)]
        tables["runs"] = merged(tables["runs"], pd.DataFrame(rows))
        tables["traces"] = merged(tables["traces"], pd.concat(traces))
    if followed:
        looks = [curvature_rows(file, columns["curvature"]) for file in followed]
        tables["curvature"] = merged(tables["curvature"], pd.concat(looks))
    return tables


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", type=Path, help="folder of a study, such as results/cpu")
    parser.add_argument("--into", type=Path, default=REFERENCE, help="folder of the reference tables")
    options = parser.parse_args()
    try:
        tables = archive(options.study, options.into)
    except (OSError, ValueError) as error:
        sys.exit(f"archive_runs: {error}")
    for name, table in tables.items():
        file = options.into / f"{name}.csv"
        write_text(file, table.to_csv(index=False))
        print(f"{file}: {len(table)} rows")


if __name__ == "__main__":
    main()

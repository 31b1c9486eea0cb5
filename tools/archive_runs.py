"""Add the finished runs of a study to the reference tables that are kept with the project.

    python tools/archive_runs.py results/cpu

reads every finished run under `runs/` and `ablations/<name>/`, and every file under `curvature/`, and writes
`runs.csv`, `traces.csv` and `curvature.csv` in paper/reference. It samples nothing. A run made again replaces
its row; all other rows stay as they are. Runs of other settings than the published are refused, but for
ablations. Machine, Python, commit and versions are those that the run recorded in its metrics.json.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "workflow"), str(ROOT / "workflow" / "scripts")]

from lib.reference import RUN  # noqa: E402
from summarise import finished_runs, read_run  # noqa: E402

from smcda._io import write_text  # noqa: E402

REFERENCE = ROOT / "paper" / "reference"
OPTIONAL = {"log_evidence", "ablation", "start_seed"}
CHANGED_BY_ABLATIONS = ("iterations", "step_size", "batch_size", "weighting")
PUBLISHED = ROOT / "workflow" / "resources" / "published_settings.yaml"


def run_row(run: dict[str, Any], file: Path, columns: list[str]) -> pd.DataFrame:
    """One row of runs.csv from a run's metrics.json."""
    row = {name: as_text(value) for name, value in read_run(run, file).items()}
    row["prior_scale"] = row["prior_scale"] or "fan_in"
    return complete(pd.DataFrame([{name: value for name, value in row.items() if value}]), file, columns)


def trace_rows(file: Path, run: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """The iterations of a run at which it was evaluated."""
    trace = pd.read_csv(file.with_name("trace.csv")).dropna(subset=["test_accuracy"]).map(as_text)
    return trace.assign(**run[RUN].iloc[0])[columns]


def complete(table: pd.DataFrame, file: Path, columns: list[str]) -> pd.DataFrame:
    """Refuse a result that does not record something, or that is of another scale; an ablation may differ."""
    if missing := [name for name in columns if name not in table and name not in OPTIONAL]:
        raise ValueError(f"{file} does not record its {', '.join(missing)}: make it again")
    names = ("n_train", "n_test") if "ablation" in table else ("n_train", "n_test", *CHANGED_BY_ABLATIONS)
    for name in [name for name in names if name in columns]:
        found, published = table[name].iloc[0], yaml.safe_load(PUBLISHED.read_text())[name]
        if found != str(published):
            raise ValueError(f"{file} has {name} {found}, the reference data {published}: leave it out")
    return table.reindex(columns=columns, fill_value="")


def as_text(value: Any) -> str:
    """Numbers in eight digits; nothing for what is not there."""
    if value is None or value != value:
        return ""
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def read(file: Path) -> pd.DataFrame:
    """Read a table as text, so that writing it again changes no digit."""
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def merged(archived: pd.DataFrame, new: list[pd.DataFrame], key: Sequence[str] = RUN) -> pd.DataFrame:
    """All archived rows but those of runs that are made again, and the new ones."""
    added, key = pd.concat([archived[:0], *new]), list(key)
    made_again = pd.MultiIndex.from_frame(archived[key]).isin(pd.MultiIndex.from_frame(added[key]))
    table, whole = pd.concat([archived[~made_again], added]), ("seed", "particles", "iteration", "n_train")
    order = [name for name in (*key, "iteration") if name in table]
    return table.sort_values(order, key=lambda c: c.astype(int) if c.name in whole else c, kind="stable")


def archive(study: Path, into: Path) -> dict[str, pd.DataFrame]:
    """Put the tables together; nothing is written yet."""
    tables = {name: read(into / f"{name}.csv") for name in ("runs", "traces", "curvature")}
    columns = {name: list(table.columns) for name, table in tables.items()}
    runs, files = finished_runs(study)
    curves = sorted(study.glob("curvature/*/*/seed-*.csv"))
    if not files and not curves:
        raise ValueError(f"{study} has no finished run: give the folder of a study, such as results/cpu")
    rows = [run_row(run, file, columns["runs"]) for run, file in zip(runs, files, strict=True)]
    new = {
        "runs": rows,
        "traces": [trace_rows(*pair, columns["traces"]) for pair in zip(files, rows, strict=True)],
        "curvature": [complete(read(file), file, columns["curvature"]) for file in curves],
    }
    return {name: merged(table, new[name]) for name, table in tables.items()}


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

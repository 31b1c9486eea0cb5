"""Add the finished runs of the small-data study to the table that is kept with the project.

    python tools/archive_small_data.py results/small_data

reads every finished run, whether the study is complete or not, and writes paper/reference/small_data.csv. A
run made again replaces its row; no other row changes. Then `python tools/write_reference_pages.py`.
"""

import argparse
import sys
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "workflow"), str(ROOT / "tools")]

from archive_runs import REFERENCE, as_text, merged, read  # noqa: E402
from lib.small_data import COLUMNS, KEY, SCORES, row_of  # noqa: E402

from smcda._io import write_text  # noqa: E402

NEEDED = [*KEY, *SCORES, "gradient_evaluations", "runtime_s", "machine", "python", "commit"]


def new_rows(study: Path) -> list[pd.DataFrame]:
    """One row per finished run, whose method is named by its folder."""
    rows = []
    for file in sorted(study.glob("runs/*/n-*/*/*/j-*/seed-*/metrics.json")):
        row = {name: as_text(value) for name, value in row_of(file.parts[-5], file).items()}
        if missing := [name for name in NEEDED if not row[name] and name != "prior_scale"]:
            raise ValueError(f"{file} does not record its {', '.join(missing)}: make it again")
        rows.append(pd.DataFrame([row]))
    if not rows:
        raise ValueError(f"{study} has no finished run: give the folder of the study, results/small_data")
    return rows


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", type=Path, help="folder of the study, such as results/small_data")
    parser.add_argument("--into", type=Path, default=REFERENCE, help="folder of the reference tables")
    options = parser.parse_args()
    file = options.into / "small_data.csv"
    try:
        table = merged(read(file).reindex(columns=COLUMNS, fill_value=""), new_rows(options.study), KEY)
    except (OSError, ValueError) as error:
        sys.exit(f"archive_small_data: {error}")
    write_text(file, table.to_csv(index=False))
    print(f"{file}: {len(table)} rows")


if __name__ == "__main__":
    main()

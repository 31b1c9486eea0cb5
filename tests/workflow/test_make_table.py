"""The paper's tables: every number in its place, rounded once, best ones marked."""

import csv
import re
from types import SimpleNamespace

import make_table
import pandas as pd
import pytest
from helpers.study import REFERENCE, ROOT
from lib.labels import LABELS, escape
from lib.latex import grouped, inline_math, setting
from lib.tables import CELL, rounded

PUBLISHED = ROOT / "workflow" / "resources" / "published_table.csv"
DATASETS = ("mnist", "fashion_mnist")
SCHEMES = ["constant", "full_batch", "constant_to_refine", "linear", "automated", "smooth_data_annealing"]
NAMES = {label.latex_title: name for name, label in LABELS.items()} | {
    label.latex: name for name, label in LABELS.items()
}


def row(scheme, kernel, accuracy, log_likelihood, seconds, **others):
    values = {"test_accuracy": accuracy, "test_log_likelihood": log_likelihood, "runtime_s": seconds}
    cells = {f"{metric}_mean": value for metric, value in values.items()}
    cells |= {"test_accuracy_std": 0.5, "test_log_likelihood_std": 0.0126, "runtime_s_std": 1.0}
    about = {"dataset": "mnist", "scheme": scheme, "kernel": kernel, "n_seeds": 2, "missing_seeds": ""}
    return about | cells | others


ROWS = [
    row("constant", "ld", 90.004, -0.3, 10, speedup_seconds=10, speedup_gradients=6.666),
    row("constant", "hmc", 95.001, -0.2004, 20, speedup_seconds=5, speedup_gradients=4.5),
    row("full_batch", "ld", 91.5, -0.2496, 100, speedup_seconds=1, speedup_gradients=1),
    row("full_batch", "hmc", 94.999, -0.2001, 101, speedup_seconds=1, speedup_gradients=1),
]


@pytest.fixture
def make(tmp_path):
    """Make a table as its rule does; give its records and its rows of LaTeX cells."""

    def make(table, rows=ROWS, schemes=("constant", "full_batch"), datasets=("mnist",), published=PUBLISHED):
        summary = tmp_path / "summary.csv"
        pd.DataFrame(rows).to_csv(summary, index=False)
        files = {name: REFERENCE / f"{name}.csv" for name in ("runs", "traces", "curvature", "ablations")}
        files |= {"summary": summary, "published": published}
        files |= {"template": ROOT / "paper" / "templates" / f"{table}.tex.j2"}
        output = SimpleNamespace(tex=tmp_path / "t.tex", csv=tmp_path / "t.csv")
        cells = [(d, s, k) for s in schemes for d in datasets for k in ("ld", "hmc")]
        runs = [dict(zip(CELL, cell, strict=True)) | {"seed": 0} for cell in cells]
        job = {"input": SimpleNamespace(**files), "output": output, "params": SimpleNamespace(runs=runs)}
        make_table.main(SimpleNamespace(**job, wildcards=SimpleNamespace(table=table)))
        with output.csv.open() as stream:
            records = list(csv.DictReader(stream))
        return records, latex_rows(output.tex.read_text())

    return make


def latex_rows(text):
    """The body's rows, each as its list of cells without typesetting."""
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    lines = [line.removesuffix(r" \\") for line in body.splitlines() if "&" in line]
    return [
        [re.sub(r"\\ensuremath|\\rlap|[${}]", "", cell).strip() for cell in line.split("&")] for line in lines
    ]


def find(records, **wanted):
    found = [record for record in records if wanted.items() <= record.items()]
    assert len(found) == 1, (wanted, found)
    return found[0]


def test_every_number_of_the_study_stands_in_its_place(make):
    _, rows = make("study")
    by_cell = {(r["scheme"], r["kernel"]): r for r in ROWS}
    assert [cells[:2] for cells in rows] == [["Constant", "MNIST"], ["Full batch", "MNIST"]]
    columns = [("test_log_likelihood", 3), ("test_accuracy", 2), ("runtime_s", 2)]
    for scheme, cells in zip(("constant", "full_batch"), rows, strict=True):
        for place, ((metric, digits), kernel) in enumerate((c, k) for c in columns for k in ("ld", "hmc")):
            cell = by_cell[scheme, kernel]
            mean, std = (f"{cell[f'{metric}_{part}']:.{digits}f}" for part in ("mean", "std"))
            assert cells[2 + place].removeprefix(r"\boldmath") == rf"{mean} \pm {std}"


def test_ties_at_the_printed_digits_share_the_mark_across_schemes(make):
    records, rows = make("study")
    marked = {(r["metric"], r["scheme"], r["kernel"]) for r in records if r["best"]}
    assert marked == {
        ("test_accuracy", "constant", "hmc"),  # 95.001 and 94.999 are both 95.00
        ("test_accuracy", "full_batch", "hmc"),
        ("test_log_likelihood", "constant", "hmc"),  # both -0.200
        ("test_log_likelihood", "full_batch", "hmc"),
        ("runtime_s", "constant", "ld"),  # less is better
    }
    bold = [[place for place, cell in enumerate(cells) if r"\boldmath" in cell] for cells in rows]
    assert bold == [[3, 5, 6], [3, 5]]


def test_a_regression_has_its_own_score_beside_those_of_classifiers(make):
    lacks = {"test_accuracy_mean": None, "test_accuracy_std": None}
    rmse = [4.0, 3.0, 2.0, 5.0]
    own = [r | lacks | {"dataset": "my_wine", "test_rmse_mean": v} for r, v in zip(ROWS, rmse, strict=True)]
    records, rows = make("study", own + ROWS, datasets=("mnist", "my_wine"))
    assert [cells[:2] for cells in rows] == [
        ["Constant", "MNIST"], ["", "my wine"], ["Full batch", "MNIST"], ["", "my wine"],
    ]  # fmt: skip
    # Log-likelihood, accuracy, RMSE and seconds, two kernels each.
    assert rows[1][4:8] == ["--", "--", "4.000", "3.000"]
    assert rows[0][6:8] == ["--", "--"]
    assert rows[3][6:8] == [r"\boldmath2.000", "5.000"]
    winner = find(records, dataset="my_wine", metric="test_rmse", best="yes")
    assert (winner["scheme"], winner["kernel"]) == ("full_batch", "ld")
    _, rows = make("speedups", ROWS + own, datasets=("mnist", "my_wine"), published=[])
    assert rows[2] == ["", "my wine", "LD", "6.67", "10.00"]


def test_the_best_are_marked_as_the_original_marks_them(make):
    with PUBLISHED.open() as stream:
        rows = list(csv.DictReader(stream))
    records, _ = make("study", rows, SCHEMES, DATASETS)
    marked = {(r["metric"], r["dataset"], r["scheme"], r["kernel"]) for r in records if r["best"]}
    assert marked == {
        ("test_log_likelihood", "mnist", "full_batch", "hmc"),
        ("test_log_likelihood", "fashion_mnist", "constant_to_refine", "hmc"),
        ("test_accuracy", "mnist", "full_batch", "hmc"),
        ("test_accuracy", "fashion_mnist", "constant_to_refine", "hmc"),
        ("test_accuracy", "fashion_mnist", "linear", "hmc"),
        ("runtime_s", "mnist", "constant", "hmc"),
        ("runtime_s", "fashion_mnist", "constant", "ld"),
    }


def test_missing_cells_missing_seeds_and_single_seeds_are_shown_as_such(make):
    rows = [ROWS[0], ROWS[2] | {"missing_seeds": "1 3"}, ROWS[3] | {"test_accuracy_std": None}]
    records, (constant, full_batch) = make("study", rows)
    assert constant[3::2] == ["--"] * 3
    assert [cell.endswith(r"^\dagger") for cell in full_batch[2:]] == [True, False] * 3
    assert full_batch[5] == r"\boldmath95.00"
    assert find(records, scheme="constant", kernel="hmc", metric="test_accuracy")["best"] == ""


def test_ours_and_published_stand_side_by_side_with_difference_and_tolerance(make):
    _, rows = make("versus_published")
    # Published, MNIST: constant LD 92.46 +- 0.01 and -0.2726 +- 0.003, full batch HMC 98.00 +- 0.15.
    about, ours, theirs = [r"Constant^\dagger", "MNIST", "LD", "2"], r"90.00\pm0.50", r"92.46\pm0.01"
    assert rows[0][:8] == [*about, ours, theirs, r"-2.46^*", "1.00"]
    assert rows[0][8:] == [r"-0.300\pm0.013", r"-0.273\pm0.003", r"-0.027^*", "0.020"]
    assert rows[3][2:8] == ["HMC", "2", r"95.00\pm0.50", r"98.00\pm0.15", r"-3.00^*", "1.00"]
    assert rows[2][0] == "Full batch"  # which chose nothing
    inside = [ROWS[0] | {"test_accuracy_mean": 92.0}]
    _, rows = make("versus_published", inside, ("constant",))
    assert rows[0][6] == "-0.46"
    assert rows[1][3:8] == ["--", "--", r"97.55\pm0.11", "--", "1.00"]


def test_a_scheme_that_was_never_published_is_not_compared(make):
    records, rows = make("versus_published", [row("my_scheme", "ld", 90, -0.3, 10)], ("my_scheme",))
    assert rows[0][4:8] == [r"90.00\pm0.50", "--", "--", "--"]
    assert find(records, kernel="ld", metric="test_accuracy")["outside"] == ""


def test_speedups_show_published_seconds_only_where_they_are_given(make):
    # Published seconds: 8985.56 / 502.76 = 17.873 with LD, 11136.71 / 473.7 = 23.51 with HMC.
    _, rows = make("speedups")
    assert rows == [
        ["Constant", "MNIST", "LD", "6.67", "10.00", "17.87"],
        ["", "", "HMC", "4.50", "5.00", "23.51"],
    ]
    records, rows = make("speedups", published=[])
    assert rows == [["Constant", "MNIST", "LD", "6.67", "10.00"], ["", "", "HMC", "4.50", "5.00"]]
    assert "published" not in records[0]


def test_a_study_of_full_batch_alone_has_no_speedups(make):
    only = [row for row in ROWS if row["scheme"] == "full_batch"]
    assert make("speedups", only, ("full_batch",)) == ([], [])


def test_every_ablation_stands_in_its_place_beside_the_published_row(make):
    records, rows = make("ablations", datasets=DATASETS)
    runs = pd.read_csv(REFERENCE / "runs.csv", dtype={"prior_scale": str})
    assert rows[0][:3] == ["published", r"92.46 \pm 0.01", "-0.273"]
    chosen = {"8 particles": ("particles_8", "0.1"), "prior scale 0.2": ("prior_scale_0.2", "0.2")}
    for what, (ablation, prior) in chosen.items():
        cells = next(cells for cells in rows if cells[0] == what)
        own = runs[(runs["ablation"] == ablation) & (runs["prior_scale"] == prior)]
        columns = [(d, k) for d in DATASETS for k in ("ld", "hmc")]
        for place, (dataset, kernel) in enumerate(columns):
            accuracy = own[(own["dataset"] == dataset) & (own["kernel"] == kernel)]["test_accuracy"]
            assert cells[1 + 2 * place].split(r" \pm ")[0] == f"{accuracy.mean():.2f}"
    # 97.19 % and -0.106 against 97.55 +- 1 and -0.081 +- 0.02.
    more = [r for r in records if r["ablation"] == "particles_32"]
    assert [(r["dataset"], r["seeds"], r["within"]) for r in more] == [("mnist", "0", "1")]


def test_an_ablation_is_compared_with_the_main_study_over_its_own_seeds(make):
    """HMC on MNIST: 96.99 % over seeds 0 and 1 is within a point of 97.55 %, 96.30 % over three is not."""
    records, _ = make("ablations")
    assert find(records, ablation="particles_8", kernel="hmc")["seeds"] == "0 1"
    assert find(records, ablation="particles_8", kernel="hmc")["baseline"] == "2"
    assert find(records, ablation="", kernel="hmc")["baseline"] == "0"


def test_an_ablation_that_is_not_described_stops_the_build(make, tmp_path, monkeypatch):
    (tmp_path / "reference").mkdir()
    for name in ("runs", "ablations"):
        (tmp_path / "reference" / f"{name}.csv").write_bytes((REFERENCE / f"{name}.csv").read_bytes())
    lines = (REFERENCE / "ablations.csv").read_text().splitlines(keepends=True)
    (tmp_path / "reference" / "ablations.csv").write_text("".join(x for x in lines if "ld_2h" not in x))
    monkeypatch.setitem(globals(), "REFERENCE", tmp_path / "reference")
    with pytest.raises(ValueError, match="ld_2h"):
        make("ablations")


@pytest.mark.parametrize(("dataset", "kernel"), [(d, k) for d in DATASETS for k in ("ld", "hmc")])
def test_stability_sets_spread_and_curvature_in_their_places(make, dataset, kernel):
    """4 / (0.002^2 60,000) is 16.7."""
    _, rows = make("stability", datasets=DATASETS)
    cells = next(cells for cells in rows if [NAMES[cell] for cell in cells[:2]] == [dataset, kernel])

    def own(table, prior="0.1"):
        rows = pd.read_csv(table, dtype={"prior_scale": str}).query(
            "prior_scale == @prior and scheme == 'constant'"
        )
        rows = rows if "ablation" not in rows else rows[rows["ablation"].isna()]
        return rows[(rows["dataset"] == dataset) & (rows["kernel"] == kernel)]

    theirs = pd.read_csv(PUBLISHED).query(
        "dataset == @dataset and scheme == 'constant' and kernel == @kernel"
    )
    std = own(REFERENCE / "runs.csv")["test_accuracy"].std()
    assert cells[2:4] == [f"{theirs['test_accuracy_std'].item():.2f}", f"{std:.2f}"]
    traces = own(REFERENCE / "traces.csv")
    last = traces[traces["iteration"] > 150].groupby("seed")["test_accuracy"]
    assert set(last.count()) == {5}
    ranges = last.max() - last.min()
    assert cells[4] == f"{ranges.min():.1f} to {ranges.max():.1f}"
    for place, prior in ((5, "0.1"), (7, "fan_in")):
        found = own(REFERENCE / "curvature.csv", prior)["eigenvalue"]
        assert cells[place] == f"{found.min():.1f} to {found.max():.1f}"
        assert cells[place + 1] == f"{sum(found > 16.67)} of {len(found)}"


@pytest.mark.parametrize("table", make_table.TABLES)
def test_every_row_has_as_many_columns_as_the_table(make, table):
    _, rows = make(table)
    assert rows and len({len(cells) for cells in rows}) == 1


def test_numbers_and_names_are_safe_to_typeset():
    assert rounded(-0.0004, 3) == "0.000"
    assert rounded(-0.0004, 3, sign="+") == "+0.000"
    assert rounded(-0.0006, 3) == "-0.001"
    assert inline_math("-0.265") == r"\ensuremath{-0.265}" and inline_math("") == "--"
    assert escape(r"50% of a_b") == r"50\% of a\_b"
    assert setting(["full_batch", "my_%"]) == r"full batch, my \%"
    assert (setting(True), setting(0.002), setting(None), grouped(61_706)) == (
        "on",
        "0.002",
        "--",
        r"61\,706",
    )

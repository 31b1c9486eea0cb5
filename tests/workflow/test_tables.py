"""The paper's tables and numbers: hand-made summaries, known cells, and a text that any build can fill."""

import csv
import io
import re
from pathlib import Path
from types import SimpleNamespace

import cells as shared
import paper_numbers as numbers
import phrases
import pytest
import tables
import verdicts

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "paper" / "templates"
PUBLISHED = ROOT / "workflow" / "resources" / "published_table.csv"
SCHEMES = ["constant", "full_batch", "constant_to_refine", "linear", "automated", "smooth_data_annealing"]
PARAMETERS = {"lenet5": 61_706, "fashion_cnn": 96_658}
SETTINGS = {
    "scale": "my_scale",
    "particles": 5,
    "iterations": 40,
    "step_size": 0.01,
    "leapfrog_steps": 3,
    "batch_size": 50,
    "initial_batch": None,
    "resampling": "multinomial",
    "weight_target": "current",
    "refine_from": 0.9,
    "delta_entropy": 1.0,
    "beta_restart": 0.1,
    "n_train": 2000,
    "n_test": 1000,
    "seeds": [0, 1],
    "schemes": ["constant", "full_batch"],
    "kernels": ["ld", "hmc"],
    "datasets": ["mnist"],
    "device": "cpu",
}


def row(dataset, scheme, kernel, accuracy, log_likelihood, seconds, **others):
    values = {"test_accuracy": accuracy, "test_log_likelihood": log_likelihood, "runtime_s": seconds}
    cells = {f"{metric}_mean": str(value) for metric, value in values.items()}
    cells |= {"test_accuracy_std": "0.5", "test_log_likelihood_std": "0.0126", "runtime_s_std": "1"}
    return (dataset, scheme, kernel), cells | {"missing_seeds": ""} | others


CELLS = dict(
    [
        row("mnist", "constant", "ld", 90.004, -0.3, 10, speedup_seconds="10", speedup_gradients="6.666"),
        row("mnist", "constant", "hmc", 95.001, -0.2004, 20, speedup_seconds="5", speedup_gradients="4.5"),
        row("mnist", "full_batch", "ld", 91.5, -0.2496, 100, speedup_seconds="1", speedup_gradients="1"),
        row("mnist", "full_batch", "hmc", 94.999, -0.2001, 100, speedup_seconds="1", speedup_gradients="1"),
    ]
)
ORDER = tables.Order(["constant", "full_batch"], ["mnist"], ["ld", "hmc"])


@pytest.fixture(scope="module")
def published():
    return shared.read_cells(PUBLISHED)


def find(records, **wanted):
    found = [record for record in records if wanted.items() <= record.items()]
    assert len(found) == 1, (wanted, found)
    return found[0]


def latex(table, records, order=ORDER):
    return tables.as_latex(table, records, order, TEMPLATES / f"{table}.tex.j2", "laptop")


def test_the_study_rounds_means_and_stds_to_the_printed_digits():
    records = tables.study(CELLS, {}, ORDER)
    cell = find(records, scheme="full_batch", kernel="ld", metric="test_log_likelihood")
    assert (cell["mean"], cell["std"]) == ("-0.250", "0.013")
    assert r"{$-0.250 \pm 0.013$}" in latex("study", records)


def test_ties_at_the_printed_digits_share_the_mark_across_schemes():
    records = tables.study(CELLS, {}, ORDER)
    marked = {(r["metric"], r["scheme"], r["kernel"]) for r in records if r["best"]}
    assert marked == {
        ("test_accuracy", "constant", "hmc"),  # 95.001 and 94.999 are both 95.00
        ("test_accuracy", "full_batch", "hmc"),
        ("test_log_likelihood", "constant", "hmc"),  # both -0.200
        ("test_log_likelihood", "full_batch", "hmc"),
        ("runtime_s", "constant", "ld"),  # less is better
    }
    assert latex("study", records).count(r"\boldmath") == len(marked)


def test_the_best_are_marked_as_the_original_marks_them(published):
    order = tables.Order(SCHEMES, ["mnist", "fashion_mnist"], ["ld", "hmc"])
    records = tables.study(published, {}, order)
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


def test_a_missing_cell_is_not_a_number_and_never_the_best():
    cells = {key: value for key, value in CELLS.items() if key != ("mnist", "constant", "hmc")}
    records = tables.study(cells, {}, ORDER)
    cell = find(records, scheme="constant", kernel="hmc", metric="test_accuracy")
    assert (cell["mean"], cell["std"], cell["best"]) == ("", "", "")
    assert find(records, scheme="full_batch", kernel="hmc", metric="test_accuracy")["best"]
    assert latex("study", records).count("n/a") == 3


def test_one_seed_has_no_plus_minus():
    cells = {key: value | {"test_accuracy_std": ""} for key, value in CELLS.items()}
    text = latex("study", tables.study(cells, {}, ORDER))
    assert "{$91.50$}" in text
    assert text.count(r"\pm") == 8


def test_cells_with_missing_seeds_are_marked():
    cells = CELLS | {
        ("mnist", "full_batch", "ld"): CELLS["mnist", "full_batch", "ld"] | {"missing_seeds": "1 3"}
    }
    text = latex("study", tables.study(cells, {}, ORDER))
    assert text.count(r"$^{\dagger}$") == 3
    assert "MNIST, full batch, LD: seed 1 3" in verdicts.missing_runs(cells)
    assert verdicts.missing_runs(CELLS) == "No run is missing."


def test_differences_are_in_published_standard_deviations(published):
    records = tables.versus_published(CELLS, published, ORDER)
    cell = find(records, scheme="full_batch", kernel="hmc", metric="test_accuracy")
    # Published: 98.00 +- 0.15; (94.999 - 98.00) / 0.15 = -20.007
    assert cell["published"] == "98.00"
    assert (cell["ours"], cell["difference"], cell["in_published_stds"]) == ("95.00", "-3.00", "-20.0")
    cell = find(records, scheme="constant", kernel="ld", metric="test_log_likelihood")
    # Published: -0.2726 +- 0.003, in four digits; (-0.3 + 0.2726) / 0.003 = -9.13
    assert cell["published"] == "-0.2726"
    assert (cell["difference"], cell["in_published_stds"]) == ("-0.027", "-9.1")


def test_a_cell_that_was_never_published_is_not_compared(published):
    cells = dict([row("mnist", "my_scheme", "ld", 90, -0.3, 10)])
    order = tables.Order(["my_scheme"], ["mnist"], ["ld"])
    records = tables.versus_published(cells, published, order)
    cell = find(records, metric="test_accuracy")
    assert (cell["ours"], cell["published"], cell["difference"], cell["in_published_stds"]) == (
        "90.00",
        "",
        "",
        "",
    )
    assert latex("versus_published", records, order).count("n/a") == 6


def test_speedups_stand_beside_the_published_ones(published):
    records = tables.speedups(CELLS, published, ORDER)
    cell = find(records, scheme="constant", kernel="ld")
    # Published seconds: 8985.56 / 502.76 = 17.873
    assert (cell["seconds"], cell["gradients"], cell["published_seconds"]) == ("10.00", "6.67", "17.87")
    assert {record["scheme"] for record in records} == {"constant"}


@pytest.mark.parametrize("table", tables.TABLES)
def test_csv_and_latex_hold_the_same_numbers(table, published):
    records = tables.TABLES[table](CELLS, published, ORDER)
    read = list(csv.DictReader(io.StringIO(tables.as_csv(records))))
    assert read == records
    body = latex(table, records).split(r"\midrule")[1]
    labels = {"scheme", "dataset", "kernel", "metric", "best", "missing_seeds"}
    expected = [value for record in records for name, value in record.items() if name not in labels and value]
    found = re.findall(r"[-+]?\d+\.\d+", body)
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("table", tables.TABLES)
def test_every_row_has_as_many_columns_as_the_table(table, published):
    text = latex(table, tables.TABLES[table](CELLS, published, ORDER))
    head, body = text.split(r"\midrule")
    columns = next(line for line in head.splitlines() if line.startswith("Scheme")).count("&")
    rows = [line for line in body.splitlines() if "&" in line]
    assert rows and all(line.count("&") == columns and line.endswith(r" \\") for line in rows)


def test_zero_is_never_negative():
    assert shared.rounded(-0.0004, 3) == "0.000"
    assert shared.rounded(-0.0004, 3, sign="+") == "+0.000"
    assert shared.rounded(-0.0006, 3) == "-0.001"


def test_text_is_safe_for_latex():
    assert shared.escape(r"50% of a_b & $c {d} #1 ~ ^ \e") == (
        r"50\% of a\_b \& \$c \{d\} \#1 \textasciitilde{} \textasciicircum{} \textbackslash{}e"
    )
    assert shared.name("my_%_scheme") == r"my \% scheme"
    assert shared.inline_math("-0.265") == r"\ensuremath{-0.265}"
    assert (
        phrases.setting_text(["full_batch", "smooth_data_annealing"]) == "full batch, smooth data annealing"
    )
    assert phrases.setting_text("NVIDIA A100_80G") == "NVIDIA A100 80G"
    assert phrases.grouped(61_706) == r"61\,706"
    assert phrases.grouped(1.234e9) == r"\ensuremath{1.23\times 10^{9}}"


@pytest.fixture(scope="module")
def found(published):
    return numbers.every_number(CELLS, published, SETTINGS, PARAMETERS)


def test_numbers_are_those_of_the_summary(found):
    assert found["mnist/full_batch/ld/test_log_likelihood"] == r"\ensuremath{-0.250}"
    assert found["mnist/constant/ld/speedup_gradients"] == r"\ensuremath{6.67}"
    assert found["mnist/linear/ld/test_accuracy"] == "n/a"
    assert found["published/mnist/linear/ld/test_accuracy"] == r"\ensuremath{93.14}"
    assert found["published/speedup/mnist/constant/ld"] == r"\ensuremath{17.87}"
    assert found["network/lenet5/parameters"] == r"61\,706"
    assert found["settings/n_runs"] == "8"
    assert found["settings/initial_batch"] == "50"
    assert found["settings/rate_ld"] == "0.1"
    assert found["published/settings/rate_hmc"] == "1.08"


@pytest.mark.parametrize(("scale", "said"), [(0.1, "0.1 for every weight"), (None, "fan-in")])
def test_the_text_names_the_prior_of_the_build(scale, said):
    assert said in numbers.setting_numbers(SETTINGS | {"prior_scale": scale})["settings/prior"]


def test_verdicts_say_what_the_data_say(found):
    assert found["verdict/hmc_above_ld/test_accuracy"] == "in all 2 pairs of scheme and dataset"
    assert found["verdict/best/mnist/test_accuracy"] == (
        r"constant with HMC and full batch with HMC (\ensuremath{95.00}\,\%)"
    )
    assert found["verdict/best/fashion_mnist/test_accuracy"] == "n/a"
    assert found["verdict/against_full/mnist/constant/ld"] == "1.50 percentage points below full batch"
    assert found["verdict/against_full/mnist/constant/hmc"] == "level with full batch"
    assert found["verdict/highest/full_batch/test_accuracy"] == "in all 2 pairs of dataset and kernel"
    assert found["verdict/highest/constant/test_accuracy"] == "in 1 of the 2 pairs of dataset and kernel"
    assert "none can be compared" in found["verdict/linear_above/automated/test_accuracy"]
    assert found["ratio/hmc_over_ld/runtime_s"] == "1.00 to 2.00"


def test_verdicts_turn_round_with_the_data(published):
    swapped = {
        (dataset, scheme, {"ld": "hmc", "hmc": "ld"}[kernel]): cell
        for (dataset, scheme, kernel), cell in CELLS.items()
    }
    found = numbers.every_number(swapped, published, SETTINGS, PARAMETERS)
    assert found["verdict/hmc_above_ld/test_accuracy"] == "in none of the 2 pairs of scheme and dataset"


def test_the_published_table_is_read_by_the_same_verdicts(found):
    assert found["published/verdict/hmc_above_ld/test_accuracy"] == "in all 12 pairs of scheme and dataset"
    above = found["published/verdict/linear_above/automated/test_accuracy"]
    assert above == "in 3 of the 4 pairs of dataset and kernel"
    assert found["published/ratio/hmc_over_ld/full_batch"] == "1.19 to 1.24"
    assert found["published/work/full_over_constant/ld"] == "60"
    assert found["published/work/full_over_constant/hmc"] == "90"
    assert found["published/linear_full_at/formula"] == "119"
    assert found["published/linear_full_at/clock"] == "45 to 56"


def test_departures_from_the_published_settings_are_listed():
    text = numbers.departures(SETTINGS)
    assert r"training images (2\,000, not 60\,000)" in text
    assert "refine" not in text
    assert numbers.departures(
        numbers.PUBLISHED_SETTINGS
        | {"seeds": [0, 1, 2, 3, 4], "datasets": ["mnist"], "schemes": ["linear"], "kernels": ["ld"]}
    ) == ("every setting that was published is kept")


@pytest.mark.parametrize("cells", [CELLS, {}], ids=["some cells", "no cells"])
def test_every_number_of_the_text_is_defined_in_any_build(cells, published):
    text = (ROOT / "paper" / "main.tex").read_text(encoding="utf-8")
    used = {key for key in re.findall(r"\\val\{([^}#]+)\}", text) if not key.startswith("measured/")} - {
        "key"
    }
    assert len(used) > 40
    assert used - set(numbers.every_number(cells, published, SETTINGS, PARAMETERS)) == set()


def test_the_rule_writes_both_forms_of_a_table_and_the_macros(tmp_path):
    summary = tmp_path / "summary.csv"
    names = ["dataset", "scheme", "kernel", *next(iter(CELLS.values()))]
    with summary.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names)
        writer.writeheader()
        for key, cell in CELLS.items():
            writer.writerow(dict(zip(names, key, strict=False)) | cell)

    runs = tmp_path / "runs.csv"
    runs.write_text("seed,n_train,n_test\n0,1234,56\n")

    def job(template, output, **params):
        files = {
            "summary": summary,
            "runs": runs,
            "published": PUBLISHED,
            "template": TEMPLATES / f"{template}.tex.j2",
        }
        # As Snakemake's: names, and `get` for one that may not be there.
        inputs = SimpleNamespace(**files, get=files.get)
        return SimpleNamespace(
            input=inputs, output=SimpleNamespace(**output), params=SimpleNamespace(**params)
        )

    output = {"tex": tmp_path / "study.tex", "csv": tmp_path / "study.csv"}
    tables.main(job("study", output, table="study", scale="laptop", **ORDER._asdict()))
    assert output["tex"].read_text() == latex("study", tables.study(CELLS, {}, ORDER))
    assert len(output["csv"].read_text().splitlines()) == 1 + 3 * len(CELLS)
    numbers.main(job("numbers", {"tex": tmp_path / "numbers.tex"}, settings=SETTINGS))
    lines = (tmp_path / "numbers.tex").read_text().splitlines()
    assert r"\smcdadef{network/fashion_cnn/parameters}{96\,658}" in lines
    assert r"\smcdadef{settings/scale}{my scale}" in lines
    assert r"\smcdadef{settings/n_train}{1\,234}" in lines

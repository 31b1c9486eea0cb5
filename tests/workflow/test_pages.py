"""The report's tables have the paper's numbers in their places; its first page follows from the summary."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import make_pages
import pandas as pd
import pytest
import write_headlines
from helpers.study import ROOT
from lib.captions import REPORT
from lib.pages import table_body


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


class Cells(HTMLParser):
    """The rows of a page's tables, as text."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.bold, self.is_bold, self.is_table = [], [], False, False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.is_bold = tag == "b"
        self.is_table = self.is_table or tag == "table"
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.is_bold, self.is_table = False, self.is_table and tag != "table"

    def handle_data(self, text):
        if self.is_table and text.strip():
            self.rows[-1][-1] += text
            self.bold += [text] * self.is_bold


def table_of(tmp_path, *records):
    pd.DataFrame(records).to_csv(tmp_path / "table.csv", index=False)
    return Cells(table_body(tmp_path / "table.csv"))


def cell(scheme, kernel, metric, mean, std="", best="", dataset="mnist"):
    about = {"dataset": dataset, "scheme": scheme, "kernel": kernel, "metric": metric}
    return about | {"mean": mean, "std": std, "best": best, "incomplete": ""}


def test_the_study_has_columns_for_metric_and_kernel_and_bold_winners(tmp_path):
    found = table_of(
        tmp_path,
        cell("constant", "ld", "test_log_likelihood", "-0.300", "0.012"),
        cell("constant", "hmc", "test_log_likelihood", "-0.200", "0.010", best="yes"),
        cell("full_batch", "ld", "test_log_likelihood", "-0.250"),
        cell("full_batch", "hmc", "test_log_likelihood", ""),
        cell("constant", "ld", "test_accuracy", "90.10", "0.50"),
        cell("constant", "hmc", "test_accuracy", "95.00", "0.50", best="yes"),
        cell("full_batch", "ld", "test_accuracy", "91.50"),
        cell("full_batch", "hmc", "test_accuracy", ""),
    )
    assert found.rows == [
        ["", "Test log-likelihood", "Test accuracy (%)"],
        ["scheme", "dataset", "LD", "HMC", "LD", "HMC"],
        ["Constant", "MNIST", "-0.300 ± 0.012", "-0.200 ± 0.010", "90.10 ± 0.50", "95.00 ± 0.50"],
        ["Full batch", "MNIST", "-0.250", "", "91.50", ""],
    ]
    assert found.bold == ["-0.200 ± 0.010", "95.00 ± 0.50"]


def test_ours_and_published_stand_side_by_side_and_what_is_outside_is_bold(tmp_path):
    about = {"dataset": "mnist", "scheme": "constant", "n_seeds": "3", "sd": "0.40", "published_sd": "0.01"}
    about |= {"metric": "test_accuracy", "chose": "yes", "published": "92.46", "tolerance": "1.00"}
    found = table_of(
        tmp_path,
        about | {"kernel": "ld", "ours": "92.13", "difference": "-0.33", "outside": ""},
        about | {"kernel": "hmc", "ours": "96.30", "difference": "+3.84", "outside": "yes"},
    )
    assert found.rows[1:] == [
        ["scheme", "dataset", "kernel", "seeds", "published", "tolerance", "ours", "difference"],
        ["Constant (c)", "MNIST", "LD", "3", "92.46 ± 0.01", "1.00", "92.13 ± 0.40", "-0.33"],
        ["", "", "HMC", "3", "92.46 ± 0.01", "1.00", "96.30 ± 0.40", "+3.84"],
    ]
    assert found.bold == ["+3.84"]


def test_means_are_rounded_as_everywhere_and_empty_columns_left_out(tmp_path):
    row = {"dataset": "mnist", "scheme": "linear", "kernel": "ld", "n_seeds": 2, "missing_seeds": ""}
    row |= {"test_accuracy_mean": 90.004999, "test_accuracy_std": 0.1251, "gradient_evaluations_mean": 8000.0}
    found = table_of(tmp_path, row | {"gradient_evaluations_std": 0.0, "speedup_seconds": None})
    assert found.rows == [
        ["dataset", "scheme", "kernel", "seeds", "test accuracy (%)", "gradient evaluations"],
        ["MNIST", "Linear", "LD", "2", "90.00 ± 0.13", "8000 ± 0"],
    ]


def test_what_is_the_same_in_every_run_stands_in_a_table_of_its_own(tmp_path):
    row = {"dataset": "mnist", "scheme": "linear", "kernel": "ld", "step_size": 0.01095, "python": "3.12.0"}
    runs = [row | {"seed": seed, "test_accuracy": 90 + seed, "particles": 4.0} for seed in (0, 1)]
    found = table_of(tmp_path, *runs)
    assert found.rows == [
        ["dataset", "scheme", "kernel", "seed", "test accuracy (%)"],
        ["MNIST", "Linear", "LD", "0", "90.00"],
        ["", "", "", "1", "91.00"],
        ["", "in every run"],
        ["step size", "0.01095"],
        ["python", "3.12.0"],
        ["particles", "4"],
    ]


def test_names_of_users_are_text_and_no_html(tmp_path):
    body = write(tmp_path, {"dataset": "<i>", "scheme": "linear", "kernel": "ld", "gradients": "2.00"})
    assert "&lt;i&gt;" in body
    assert "<i>" not in body


def write(tmp_path, record):
    pd.DataFrame([record]).to_csv(tmp_path / "t.csv", index=False)
    files = {"files": [tmp_path / "t.csv"], "captions": [REPORT / "speedups.rst"]}
    make_pages.main(SimpleNamespace(input=SimpleNamespace(**files), output=[tmp_path / "page.html"]))
    return (tmp_path / "page.html").read_text()


def test_a_page_needs_no_other_file_and_has_title_caption_and_source(tmp_path):
    text = write(tmp_path, {"scheme": "linear", "gradients": "2.00"})
    assert "<h1>Speed-ups over full batch</h1>" in text
    assert "How many times cheaper" in text
    assert "t.csv" in text
    assert not re.search(r"(src|href)=|url\(|@import", text)


MEANS = {("constant", "ld"): 80.0, ("constant", "hmc"): 90.0, ("full_batch", "ld"): 85.0}
MEANS |= {("full_batch", "hmc"): 85.4}


def headlines(tmp_path, means=MEANS, metric="test_accuracy"):
    """The first page's text and table, of one dataset with two seeds that are 0.5 apart."""
    runs, summary = [], []
    for (scheme, kernel), mean in means.items():
        about = {"dataset": "mnist", "scheme": scheme, "kernel": kernel}
        sizes = {"particles": 4, "iterations": 20, "n_train": 2000}
        runs += [about | sizes | {"seed": s, metric: mean + s / 2 - 0.25} for s in (0, 1)]
        ratio = {"speedup_gradients": 1.0 if scheme == "full_batch" else 6.66}
        summary.append(about | {f"{metric}_mean": mean, f"{metric}_std": 0.3535} | ratio)
    checks = [
        {"what": "accuracy within tolerance", "found": "8 of 12", "required": "", "outcome": "12 not run"}
    ]
    checks += [{"what": "a claim", "found": "", "required": "x", "outcome": "pass"}]
    checks += [{"what": "another", "found": "", "required": "x", "outcome": "FAIL"}]
    files = {"runs": runs, "summary": summary, "comparison": checks}
    for name, records in files.items():
        pd.DataFrame(records).to_csv(tmp_path / f"{name}.csv", index=False)
    given = {name: tmp_path / f"{name}.csv" for name in files} | {"caption": REPORT / "headlines.rst"}
    output = SimpleNamespace(html=tmp_path / "headlines.html")
    write_headlines.main(SimpleNamespace(input=SimpleNamespace(**given), output=output))
    text = output.html.read_text()
    return re.sub(r"</?b>", "", text), Cells(text).rows


def test_the_headlines_follow_from_the_summary(tmp_path):
    text, rows = headlines(tmp_path)
    assert "8 runs: 1 dataset, 2 schemes, 2 kernels, 2 seeds, 4 particles, 20 iterations" in text
    assert "best test accuracy (%): LD 85.00 (full batch), HMC 90.00 (constant)" in text
    # 85.4 and 85 differ by less than their seeds do.
    assert "HMC above LD in test accuracy (%): 1 of 1 clear pairs of the same dataset and scheme" in text
    assert "; 1 open, closer" in text
    assert rows[1:] == [["Constant", "6.7", "-5.00 to 4.60"]]
    assert "accuracy within tolerance of the published: 8 of 12 cells; 12 not run" in text
    assert "published claims: 1 of 2 hold; not: another" in text


@pytest.mark.parametrize(
    "means", [{("constant", "ld"): 80.0}, {("full_batch", "hmc"): 80.0}, {("adaptive", "mala"): 1.0}]
)
def test_a_study_of_one_cell_says_less_and_compares_nothing(tmp_path, means):
    text, rows = headlines(tmp_path, means)
    assert "2 runs: 1 dataset, 1 scheme, 1 kernel, 2 seeds" in text
    assert "HMC above" not in text
    assert rows == []


def test_a_regression_s_best_is_its_least_error(tmp_path):
    text, _ = headlines(tmp_path, metric="test_rmse")
    assert "best test RMSE: LD 80.000 (constant), HMC 85.400 (full batch)" in text
    assert "HMC above" not in text


def test_a_table_without_rows_says_so(tmp_path):
    file = tmp_path / "table.csv"
    pd.DataFrame([]).to_csv(file, index=False)
    assert "no rows" in table_body(file)

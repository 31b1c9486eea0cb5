"""What a reader of the report sees, in a browser: every entry of every category, whole."""

import base64
import re

import pandas as pd
import pytest
from helpers.browser import CHROMIUM, DRIVER, Reader, chromium
from helpers.project_copy import SPACED, run_snakemake

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not here; .ci/run installs them"
    ),
]
COST, REFERENCE = "1 Scores and cost", "5 Reference study"


@pytest.fixture(scope="module")
def report(built):
    result = run_snakemake(built, "--report", "report.html", config=SPACED)
    assert result.returncode == 0, result.stdout + result.stderr
    return built / "report.html"


@pytest.fixture
def read(tmp_path):
    """Open a report; what was wrong with it is in `problems`."""
    with chromium(tmp_path / "profile") as driver:
        yield lambda file: Reader(driver, file)


def with_page(report, name, old, new, folder):
    """A copy of the report in which one page was changed."""

    def changed(found):
        text = base64.b64decode(found[2]).decode()
        assert re.search(old, text, re.DOTALL)
        return found[1] + base64.b64encode(re.sub(old, new, text, flags=re.DOTALL).encode()).decode()

    uri = rf"(filename={name}\.html;base64,)([\w+/=]+)"
    text, count = re.subn(uri, changed, report.read_text())
    assert count == 1
    (folder / "report.html").write_text(text)
    return folder / "report.html"


def test_every_entry_of_every_category_opens_whole_and_nothing_fails(report, read):
    reader = read(report)
    reader.check_first_page()
    texts = {category: reader.check_entries(category) for category in reader.categories()}
    reader.check_statistics()
    reader.check_console()
    assert reader.problems == []
    assert sum(map(len, texts.values())) == reader.n_entries() > 20
    assert {"Means over seeds", "Single runs"} == texts["4 All numbers"].keys()
    assert "FashionMNIST" in texts[REFERENCE]["Ours against published"]


def test_the_first_page_says_what_this_build_found_and_leads_to_every_category(report, read, built):
    reader = read(report)
    text = reader.check_first_page()
    summary = pd.read_csv(built / "my results" / "tiny" / "summary.csv")
    for (_, kernel), rows in summary.groupby(["dataset", "kernel"]):
        assert f"{kernel.upper()} {rows['test_accuracy_mean'].max():.2f}" in text
    assert "48 runs: 2 datasets, 6 schemes, 2 kernels, 2 seeds" in text
    for category in reader.categories():
        reader.home()
        reader.follow(category, within=".prose")
        reader.wait(reader.rows)
        assert category in reader.find("nav ol")[0].text
    assert reader.problems == []


@pytest.mark.parametrize(
    ("page", "category", "old", "new", "problem"),
    [
        ("cost", COST, "base64,", "base64,AAAA", "Test scores against cost: missing image"),
        (
            "reference_choice",
            REFERENCE,
            "<td[^>]*>[^<]*",
            "<td>",
            "The rule for start and prior: empty table",
        ),
        ("study", COST, "<table>.*</table>", "", "The study, in the published layout: shows nothing"),
        ("speedups", COST, "</body>", "<script>missing()</script>", "missing is not defined"),
    ],
)
def test_what_is_broken_is_noticed(report, read, tmp_path, page, category, old, new, problem):
    reader = read(with_page(report, page, old, new, tmp_path))
    reader.check_entries(category)
    reader.check_console()
    assert len(reader.problems) == 1
    assert problem in reader.problems[0]

"""How scripts of rules start, fail and name their sources."""

import pytest
from helpers.study import ROOT
from lib.script import run_script, sources


def test_a_failing_script_leaves_its_traceback_in_the_log(tmp_path):
    class Job:
        log = [tmp_path / "rule.log"]

    def fail(job):
        raise ValueError("no such column")

    with pytest.raises(ValueError, match="no such column"):
        run_script(fail, {"snakemake": Job})
    assert "ValueError: no such column" in Job.log[0].read_text()
    run_script(lambda job: None, {"snakemake": Job})
    assert Job.log[0].read_text() == ""
    run_script(fail, {})  # imported: nothing is called


def test_sources_of_a_script_are_all_that_it_imports(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert sources("plot_cost.py") == [
        "workflow/lib/labels.py",
        "workflow/lib/panels.py",
        "workflow/lib/script.py",
        "workflow/lib/style.py",
        "workflow/scripts/plot_cost.py",
    ]
    assert "workflow/lib/labels.py" in sources("summarise.py")

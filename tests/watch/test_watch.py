"""`smcda watch` on folders whose runs are made up: every state, and files that are damaged."""

import io
import json
import os
import re
import socket
import subprocess
import sys
import time

import pytest
from rich.console import Console

from smcda.cli import main
from smcda.runs.status import NAME
from smcda.watch.runs import PLAN, Watcher
from smcda.watch.table import age, show

NOBODY = 2**22 + 1
"""A process id that no process has: more than Linux gives away."""
LIVE = {"state": "running", "iteration": 37, "iterations": 50, "batch_size": 1000, "beta": 0.5, "ess": 3.25}
LIVE |= {"headline": ["test_accuracy", 87.2], "seconds_left": 130.0, "host": socket.gethostname()}
RESULT = {"scheme": "linear", "iterations": 50, "test_log_likelihood": -0.4, "test_accuracy": 91.5}
TRACE = "iteration,batch_size,beta,ess,test_accuracy\n0,10,1,2,\n49,60,1.0,2.5,91.5\n"


def folder_of(study, scheme, seed=0):
    folder = study / "runs" / "mnist" / scheme / "hmc" / f"seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def live(folder, seconds_ago=0.0, **values):
    file = folder / NAME
    file.write_text(json.dumps(LIVE | {"pid": os.getpid()} | values))
    changed(file, seconds_ago)


def done(folder, seconds_ago=0.0, **values):
    (folder / "trace.csv").write_text(TRACE)
    (folder / "metrics.json").write_text(json.dumps(RESULT | values))
    changed(folder / "metrics.json", seconds_ago)


def changed(file, seconds_ago):
    then = time.time() - seconds_ago
    os.utime(file, (then, then))


def plan(study, runs, seconds_ago=100.0):
    study.mkdir(parents=True, exist_ok=True)
    (study / PLAN).write_text(json.dumps({"started": time.time() - seconds_ago, "runs": runs}))


def rows(capsys, *words):
    """The table that is printed, by the name of the run, without the run's own column."""
    assert main(["watch", *map(str, words)]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = [line.split() for line in lines if line.startswith("mnist ")]
    return lines, {" ".join(row[:4]): row[4:] for row in found if not row[3].endswith(":")}


def test_every_state_is_told_from_the_files(tmp_path, capsys):
    study = tmp_path / "laptop"
    names = [
        "running",
        "done",
        "stopped",
        "diverged",
        "failed",
        "killed",
        "silent",
        "compiling",
        "begun",
        "waiting",
    ]
    plan(study, {f"runs/mnist/{name}/hmc/seed-0": 10 for name in names})
    live(folder_of(study, "running"), 2)
    done(folder_of(study, "done"), 200)
    for name in ("stopped", "diverged", "failed"):
        live(folder_of(study, name), 7200, state=name, message=f"why it {name}", pid=NOBODY)
    live(folder_of(study, "killed"), 60, pid=NOBODY, saved_at=30)
    live(folder_of(study, "silent"), 300, host="another", pid=17)
    live(folder_of(study, "compiling"), 3)
    status = json.loads((folder_of(study, "compiling") / NAME).read_text())
    del status["iteration"]
    (folder_of(study, "compiling") / NAME).write_text(json.dumps(status))
    log = study / "logs" / "runs" / "mnist" / "begun" / "hmc" / "seed-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("")
    lines, found = rows(capsys, tmp_path)
    assert list(found) == [f"mnist {name} hmc 0" for name in names]
    states = {name: found[f"mnist {name} hmc 0"][0] for name in names}
    assert states == {name: name for name in names} | {"compiling": "starting", "begun": "starting"}
    sign = r"37/50 1000 0\.50 3\.2 87\.20 % 0:02:10 [2-9] s"
    assert re.fullmatch(f"running {sign}", " ".join(found["mnist running hmc 0"]))
    assert " ".join(found["mnist done hmc 0"]) == "done 50/50 60 1.00 2.5 91.50 % 3 min"
    assert found["mnist waiting hmc 0"] == ["waiting"]
    assert " ".join(found["mnist killed hmc 0"][-2:]) == "60 s"
    title = next(line for line in lines if "laptop" in line)
    assert (
        "10 runs: 1 done, 1 running, 2 starting, 1 failed, 1 diverged, 1 killed, 1 silent, 1 stopped" in title
    )
    told = [line for line in lines if ": " in line and line.startswith("mnist")]
    assert "mnist stopped hmc 0: why it stopped" in told
    host = socket.gethostname()
    gone = f"mnist killed hmc 0: process {NOBODY} on {host} is gone without a word; iteration 30 is saved"
    assert any(line.startswith(gone) for line in told)
    assert any("process 17 on another gives no sign" in line for line in told)


def test_a_run_that_was_written_just_now_is_not_called_killed(tmp_path, capsys):
    """Another container may have the host's name and processes of its own."""
    live(folder_of(tmp_path, "linear"), 5, pid=NOBODY)
    assert rows(capsys, tmp_path)[1]["mnist linear hmc 0"][0] == "running"


def test_results_that_are_newer_than_the_status_are_what_counts(tmp_path, capsys):
    folder = folder_of(tmp_path, "linear")
    live(folder, 60, pid=NOBODY)
    done(folder, 50)
    assert rows(capsys, tmp_path)[1]["mnist linear hmc 0"][0] == "done"
    live(folder, 1)  # made again
    assert rows(capsys, tmp_path)[1]["mnist linear hmc 0"][0] == "running"


def test_the_time_left_is_the_time_so_far_by_cost(tmp_path):
    """100 s for one run and half of another of the same cost: 33 s to go. One was there."""
    plan(tmp_path, {f"runs/mnist/{name}/hmc/seed-0": 10 for name in ("old", "one", "two")}, seconds_ago=100)
    done(folder_of(tmp_path, "old"), 1000)
    done(folder_of(tmp_path, "one"), 20)
    live(folder_of(tmp_path, "two"), iteration=25)
    (study,) = Watcher([tmp_path]).look()
    assert study.seconds_left == pytest.approx(100 * 5 / 15, rel=0.01)
    (folder_of(tmp_path, "two") / NAME).unlink()
    assert Watcher([tmp_path]).look()[0].seconds_left is None, "nothing is at work"


def test_runs_outside_a_study_are_named_by_their_path(tmp_path, capsys):
    live(tmp_path, iterations=None, acceptance=0.81, headline=None)
    assert main(["watch", str(tmp_path), "--once"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["run", "state", "iteration", "M", "beta", "J_eff", "accepted", "left", "seen"]
    assert lines[2].split()[:7] == [tmp_path.name, "running", "37", "1000", "0.50", "3.2", "0.81"]


def test_part_of_a_study_has_the_names_of_the_whole(tmp_path, capsys):
    plan(tmp_path, {"runs/mnist/linear/hmc/seed-0": 1, "runs/mnist/constant/hmc/seed-0": 1})
    done(folder_of(tmp_path, "linear"))
    lines, found = rows(capsys, tmp_path / "runs" / "mnist")
    assert set(found) == {"mnist linear hmc 0"}


def test_a_change_is_seen_at_the_next_look(tmp_path):
    folder = folder_of(tmp_path, "linear")
    live(folder, iteration=1)
    watcher = Watcher([tmp_path])
    assert watcher.look()[0].runs[0].number("iteration") == 1
    live(folder, iteration=2, ess=1.125)
    assert watcher.look()[0].runs[0].number("iteration") == 2
    (folder / NAME).unlink()
    assert watcher.look() == []


DAMAGED = ["", "{", "[]", "null", '"text"', "\x00\xff", '{"iteration": "x"}', '{"ess": {}, "headline": 3}']
DAMAGED += [
    '{"scheme": 1, "headline": [1, 2, 3]}',
    '{"iteration": NaN, "seconds_left": Infinity, "pid": "x"}',
]
DAMAGED += [
    '{"iteration": 1e999, "iterations": -1, "host": [], "pid": -1, "message": {"a": "[bold]"}}',
    "[" * 5000,
]
DAMAGED += [
    '{"runs": {"": "x", "../..": 1, "runs/a": null}, "started": "now"}',
    '{"runs": [], "started": {}}',
]


@pytest.mark.parametrize("name", [NAME, "metrics.json", "trace.csv", PLAN])
@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_file_is_no_traceback(name, text, tmp_path, capsys):
    study = tmp_path / "laptop"
    plan(study, {"runs/mnist/linear/hmc/seed-0": 1, "runs/mnist/other/hmc/seed-0": 1})
    done(folder_of(study, "linear"))
    live(folder_of(study, "other"), 300)
    place = study if name == PLAN else folder_of(study, "linear")
    (place / name).write_text(text, encoding="latin-1")
    lines, found = rows(capsys, tmp_path)
    assert found["mnist other hmc 0"][0] == "silent"
    terminal = Console(force_terminal=True, width=80, height=24, file=io.StringIO())
    terminal.print(show(Watcher([tmp_path]).look(), terminal, all_rows=False))


@pytest.mark.parametrize(("width", "height"), [(80, 24), (130, 30), (60, 10)])
def test_a_large_study_fits_the_terminal_and_shows_what_matters_first(width, height, tmp_path):
    study = tmp_path / "large"
    plan(study, {f"runs/mnist/linear/hmc/seed-{seed}": 1 for seed in range(120)})
    for seed in range(60):
        done(folder_of(study, "linear", seed), 100 - seed)
    live(folder_of(study, "linear", 100))
    live(folder_of(study, "linear", 110), 100, pid=NOBODY)
    console = Console(force_terminal=True, width=width, height=height, record=True, file=io.StringIO())
    console.print(show(Watcher([tmp_path]).look(), console, all_rows=False))
    text = console.export_text()
    assert text.count("\n") <= height
    assert "linear hmc 100" in text and "linear hmc 110" in text and "more" in text
    assert "58 waiting" in text


def test_a_folder_that_is_not_there_is_refused_in_one_line(tmp_path, capsys):
    assert main(["watch", str(tmp_path / "no")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["watch", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no runs here yet\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7100, "2 h"), (3600, "1 h"), (2e5, "2 d")],
)
def test_ages_are_short(seconds, text):
    assert age(seconds) == text


def test_it_does_not_import_jax(tmp_path):
    code = (
        "import sys; from smcda.cli import main; main(['watch', sys.argv[1]]); sys.exit('jax' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)

"""One run by two processes: the result of one, and nobody left waiting when something happens to one."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from smcda.errors import BadInput, Relayed
from smcda.joining import BY_HAND, BY_SLURM, find_seat, joined
from smcda.signals import StopSignals

ROOT = Path(__file__).parents[1]
SCHEMES = ["constant", "smooth_data_annealing"]
CLOCKS = {"runtime_s", "compile_s", "evaluation_s", "checkpoint_s", "peak_memory_mb", "resumed"}
# JAX gives up on a missing process after 100 s and more; whoever ends before that was told.
PROMPTLY = 90

# The command, with a view that sends this process a signal when an iteration is done. The first and every
# third iteration end a block whatever the clock says; otherwise a process may think itself slow.
COMMAND = """
import os, sys
from smcda import cli, joining, progress, runner

class Watch(progress.Silent):
    def step(self, status):
        print("iteration", status.iteration, flush=True)
        if str(status.iteration) == os.environ.get("SIGNAL_AT"):
            os.kill(os.getpid(), int(os.environ["SIGNAL"]))

progress.choose_view = lambda quiet: Watch()
runner.BLOCK_SECONDS = float(os.environ.get("BLOCK_SECONDS", 100))
joining.MEETING_SECONDS = float(os.environ.get("MEETING_SECONDS", 300))
sys.exit(cli.main(sys.argv[1:]))
"""


def write_data(path, n_test=30):
    with np.load(ROOT / "smcda" / "bundled" / "mnist.npz") as bundled:
        sizes = {"train_x": 60, "train_y": 60, "test_x": n_test, "test_y": n_test}
        np.savez(path, **{name: bundled[name][:size] for name, size in sizes.items()})
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data") / "small.npz")


@pytest.fixture(scope="module")
def options(data, cache):
    """What all runs here have in common."""
    chosen = {"data": data, "network": "lenet5", "kernel": "hmc", "seed": 3, "particles": 8, "iterations": 6}
    chosen |= {"step-size": 0.02, "batch-size": 9, "evaluate-every": 3, "checkpoint-every": 0}
    chosen |= {"device": "cpu", "threads": 1, "compilation-cache": cache}
    return [text for name, value in chosen.items() for text in (f"--{name}", str(value))]


def start(*arguments, **environment):
    launchers = ("SLURM_", "JAX_", "XLA_FLAGS")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "run", *map(str, arguments)],
        env=inherited | {"JAX_PLATFORMS": "cpu"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start_two(*arguments, each=({}, {}), more=((), ())):
    """Start two processes of one run; `each` has an environment of its own, and options of its own."""
    address = f"127.0.0.1:{free_port()}"
    return [
        start(
            *arguments,
            *("--hosts", 2, *more[process]),
            **dict(zip(BY_HAND, (address, "2", str(process)), strict=True)),
            **each[process],
        )
        for process in range(2)
    ]


def ended(processes, seconds=300):
    """Exit codes of all, the lines for the user on standard error, and all that each said."""
    said = []
    try:
        for process in processes:
            said.append(process.communicate(timeout=seconds))
    finally:
        for process in processes:
            process.kill()
    codes = [process.returncode for process in processes]
    lines = [line for _, err in said for line in err.splitlines() if line.startswith("smcda: ")]
    return codes, lines, said


def blocks(out):
    """After which iterations a process looked up."""
    return [line for line in out.splitlines() if line.startswith("iteration ")]


def contents(out):
    metrics = json.loads((out / "metrics.json").read_text())
    with (out / "trace.csv").open() as file:
        trace = list(csv.DictReader(file))
    with np.load(out / "posterior.npz") as posterior:
        arrays = dict(posterior)
    metrics = {name: value for name, value in metrics.items() if name not in CLOCKS}
    return metrics, [{**row, "runtime_s": None} for row in trace], arrays


@pytest.fixture(scope="module")
def by_two(options, tmp_path_factory):
    """Finished runs by two processes, one a scheme."""
    made = {}

    def make(scheme):
        if scheme not in made:
            out = tmp_path_factory.mktemp("two") / "run"
            command = [*options, "--scheme", scheme, "--out", out, "--save-posterior"]
            # What is due is decided by one clock, here that of a process in no hurry to look.
            codes, lines, said = ended(start_two(*command, each=({}, {"BLOCK_SECONDS": "1e-9"})))
            assert (codes, lines) == ([0, 0], []), said
            assert blocks(said[0][0]) == blocks(said[1][0]) == [f"iteration {n}" for n in (1, 3, 6)]
            made[scheme] = out
        return made[scheme]

    return make


@pytest.mark.parametrize("scheme", SCHEMES)
def test_two_processes_give_the_result_of_one(options, by_two, scheme, tmp_path):
    out = tmp_path / "run"
    one = start(
        *(*options, "--scheme", scheme, "--out", out, "--save-posterior"),
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )
    assert ended([one])[0] == [0]
    (ours, our_trace, our_posterior), (theirs, their_trace, their_posterior) = map(
        contents, (by_two(scheme), out)
    )
    assert ours["devices"] == theirs["devices"] == 2
    assert ours["test_accuracy"] == theirs["test_accuracy"]
    assert any(row["resampled"] == "1" for row in our_trace), "or the ancestors mean nothing"
    for our_row, their_row in zip(our_trace, their_trace, strict=True):
        for column in ("batch_size", "resampled", "unique_ancestors", "gradient_evaluations"):
            assert our_row[column] == their_row[column], column
        for column in ("beta", "ess", "log_likelihood"):
            assert float(our_row[column]) == pytest.approx(float(their_row[column]), rel=1e-3), column
    for name, array in our_posterior.items():
        np.testing.assert_allclose(array, their_posterior[name], atol=1e-4, err_msg=name)
    assert sorted(path.name for path in by_two(scheme).parent.iterdir()) == ["run"]


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_signal_to_either_stops_both_and_they_go_on(options, by_two, tmp_path, stopped):
    scheme, out = "smooth_data_annealing", tmp_path / "run"
    command = [*options, "--scheme", scheme, "--out", out, "--save-posterior"]
    command += ["--checkpoint-every", [0, 1e-6][stopped]]
    each = [{}, {}]
    each[stopped] = {"SIGNAL_AT": "3", "SIGNAL": str(int(signal.SIGTERM))}
    codes, lines, said = ended(start_two(*command, each=each))
    assert codes == [75, 75], said
    assert lines == ["smcda: stopped by SIGTERM at iteration 3, iteration 3 is saved: start again to go on"]
    assert [path.name for path in tmp_path.iterdir()] == ["run.checkpoints"]

    codes, lines, said = ended(start_two(*command))
    assert codes == [0, 0], said
    assert len(lines) == 1 and lines[0].startswith("smcda: resuming at iteration 3 of 6 from ")
    ours, undisturbed = contents(out), contents(by_two(scheme))
    assert ours[:2] == undisturbed[:2]
    assert all(np.array_equal(array, undisturbed[2][name]) for name, array in ours[2].items())
    assert json.loads((out / "metrics.json").read_text())["resumed"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


MISTAKES = {
    "already holds a finished run": {"out": "finished"},
    "particles is 7, which 2 devices can't share evenly": {"both": ["--particles", 7]},
    "step_size is -1.0, but must be": {"both": ["--step-size", -1]},
    "process 1: nowhere.npz cannot be read": {"second": ["--data", "nowhere.npz"]},
    "process 1 has another data_sha256 than process 0": {"second": ["--data", "other.npz"]},
    "process 1 has another settings than process 0": {"second": ["--iterations", 7]},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_ends_both_with_one_line(options, by_two, tmp_path, monkeypatch, message):
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path / "other.npz", n_test=29)
    mistake = MISTAKES[message]
    out = by_two("constant") if mistake.get("out") == "finished" else tmp_path / "run"
    before = sorted(out.parent.rglob("*"))
    command = [*options, "--scheme", "constant", "--out", out, *mistake.get("both", [])]
    codes, lines, said = ended(start_two(*command, more=((), mistake.get("second", ()))), PROMPTLY)
    assert codes == [2, 2], said
    assert len(lines) == 1 and message in lines[0], said
    assert sorted(out.parent.rglob("*")) == before


def test_a_signal_is_heard_while_the_first_process_waits_for_a_lock(options, tmp_path):
    from smcda.locks import locked

    out = tmp_path / "run"
    with locked(out / ".lock", "testing"):
        processes = start_two(*options, "--scheme", "constant", "--out", out)
        line = ""
        while "waiting for another process" not in line:
            line = processes[0].stderr.readline()
            assert line, "ended before it waited"
        time.sleep(0.5)
        processes[1].send_signal(signal.SIGTERM)
        codes, lines, said = ended(processes, PROMPTLY)
    assert codes == [75, 75], said
    assert lines == ["smcda: stopped by SIGTERM before the first iteration: start again"]


def test_when_one_process_is_killed_the_other_ends_too(options, tmp_path):
    each = ({}, {"SIGNAL_AT": "3", "SIGNAL": str(int(signal.SIGKILL))})
    command = [*options, "--scheme", "constant", "--out", tmp_path / "run"]
    codes, lines, said = ended(start_two(*command, each=each))
    assert codes[1] == -signal.SIGKILL
    assert codes[0] not in (0, 2, 3, 75), said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("process", ["0", "1"])
def test_a_process_that_waits_for_the_others_in_vain_says_so(options, tmp_path, process):
    place = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{free_port()}", "JAX_NUM_PROCESSES": "2"}
    alone = start(
        *(*options, "--scheme", "constant", "--out", tmp_path / "run", "--hosts", 2),
        **place,
        JAX_PROCESS_ID=process,
        MEETING_SECONDS="1.5",
    )
    codes, lines, said = ended([alone], PROMPTLY)
    assert codes == [1], said
    assert len(lines) == 1 and f"process {process} of 2 waited 1.5 s for the others" in lines[0]


# --- which of several a process is ---------------------------------------------------------------

SLURM = dict(zip(BY_SLURM, ("node[1-2]", "2", "1", "0", "77"), strict=True))
HAND = dict(zip(BY_HAND, ("node1:1234", "2", "1"), strict=True))


def test_a_place_is_read_from_the_launchers_variables():
    assert find_seat(2, HAND) == ("node1:1234", 1, "deactivate")
    assert find_seat(2, SLURM) == (None, 1, "slurm")
    assert find_seat(2, SLURM | HAND).address == "node1:1234"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "hosts is 2, but this process was not started as one of several: start it by srun -n 2"),
        # Inside a job of several tasks, but not in a step of its own.
        ({name: SLURM[name] for name in BY_SLURM[1:]}, "was not started as one of several"),
        (SLURM | {"SLURM_NTASKS": "3", "SLURM_PROCID": "0"}, "hosts is 2, but SLURM_NTASKS is 3"),
        (HAND | {"JAX_NUM_PROCESSES": "3", "JAX_PROCESS_ID": "0"}, "hosts is 2, but JAX_NUM_PROCESSES is 3"),
        (HAND | {"JAX_PROCESS_ID": "2"}, "JAX_PROCESS_ID '2', but must be a number and one below it"),
        (HAND | {"JAX_NUM_PROCESSES": "two"}, "JAX_NUM_PROCESSES is 'two'"),
        (HAND | {"JAX_COORDINATOR_ADDRESS": "node1"}, "JAX_COORDINATOR_ADDRESS is 'node1', but must be"),
    ],
)
def test_a_place_that_does_not_fit_is_refused(environment, message):
    with pytest.raises(BadInput, match=message):
        find_seat(2, environment)


def test_only_the_first_says_that_the_number_does_not_fit():
    with pytest.raises(Relayed) as silent:
        find_seat(3, SLURM)
    assert (silent.value.exit_code, str(silent.value)) == (2, "")


def test_the_option_without_a_launcher_is_bad_input(options, tmp_path):
    process = start(*options, "--scheme", "constant", "--out", tmp_path / "run", "--hosts", 2)
    codes, lines, _ = ended([process], PROMPTLY)
    assert codes == [2]
    assert len(lines) == 1 and "was not started as one of several" in lines[0]


def test_without_the_option_nobody_is_waited_for(monkeypatch):
    for name, value in (SLURM | HAND).items():
        monkeypatch.setenv(name, value)
    stop = StopSignals()
    with joined(None, stop) as hosts:
        assert hosts.is_first and hosts.decided(3) == 3
        stop.received = "SIGTERM"
        assert hosts.stopped_by == "SIGTERM"

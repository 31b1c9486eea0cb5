"""Many interrupted runs in a row: none may end with a wrong result or leave anything behind.

    python tests/system/soak.py --runs 200 --seed 1

Each run is interrupted by random signals at random moments and started again until it is done; then its
files must equal those of an undisturbed run, bit for bit but for clocks and `resumed`, and its folder must
hold nothing else but the lock file. With ``--kills 5`` every run is killed with SIGKILL at least so many
times, each time after another checkpoint was saved. Processes are forked after the imports, which saves
seconds each; they are otherwise what `smcda run` is.
"""

import argparse
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from helpers.results import RESULTS, contents

from smcda.cli import main
from smcda.runs import runner  # noqa: F401  (imported once, before the forks)
from smcda.smc.kernels import KERNELS
from smcda.smc.schedules import SCHEDULES

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
MAX_SECONDS_TO_STOP = 60  # generous: machines that test are busy


def launch(arguments, log):
    """Start `smcda` with these arguments in a process of its own and return its number."""
    process = os.fork()
    if process:
        return process
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    code = 1
    try:
        code = main([str(argument) for argument in arguments])
    except KeyboardInterrupt:  # before `main` takes care of it
        code = 130
    finally:
        os._exit(code)


def finished(process):
    """The exit code of a process that has ended (minus the signal that killed it), or None."""
    found, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def wait(process, seconds):
    """The exit code of a process; one that takes longer than so many seconds is a failure."""
    limit = time.monotonic() + seconds
    while (code := finished(process)) is None:
        if time.monotonic() > limit:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            raise AssertionError(f"still there after {seconds} s")
        time.sleep(0.01)
    return code


def difference(one, other):
    """The first entry in which two results differ."""
    if isinstance(one, dict):
        one, other = one.items(), other.items()
    return next((pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]), "in length")


class Soak:
    """A folder with data, undisturbed runs to compare with, and a random generator for the rest."""

    def __init__(self, folder, seed, cache, iterations=40):
        self.folder, self.random, self.cache, self.iterations = folder, random.Random(seed), cache, iterations
        self.counts, self.slowest_s, self._expected = Counter(), 0.0, {}
        self.data = folder / "mnist.npz"
        prepare = ["data", "mnist", "--bundled", "--out", self.data, "--train", 60, "--test", 30]
        assert wait(launch(prepare, folder / "data.log"), 120) == 0

    def arguments(self, out, scheme, kernel):
        options = {
            "data": self.data, "model": "lenet5", "scheme": scheme, "kernel": kernel, "seed": 3, "out": out,
            "particles": 3, "iterations": self.iterations, "batch-size": 20, "step-size": 0.01,
            "evaluate-every": 7, "compilation-cache": self.cache, "checkpoint-every": 0.1, "device": "cpu",
            "threads": 1,
        }  # fmt: skip
        if scheme == "adaptive" and kernel == "hmc":
            options["leapfrog-steps"] = 8
        if scheme == "adaptive":  # it finds its own step, and its number of iterations is an upper bound
            del options["step-size"]
        return [
            "run",
            "--save-posterior",
            "--overwrite",  # as the workflow does: a kill may come between the last file and the end
            *(part for name in options for part in (f"--{name}", options[name])),
        ]

    def expected(self, scheme, kernel):
        """The contents of an undisturbed run, and the seconds that one takes with compiling done before."""
        if (scheme, kernel) not in self._expected:
            out = self.folder / f"undisturbed-{len(self._expected)}"
            started = time.monotonic()
            options = [*self.arguments(out, scheme, kernel), "--checkpoint-every", 0]
            code = wait(launch(options, self.folder / "undisturbed.log"), 600)
            assert code == 0, (self.folder / "undisturbed.log").read_text()
            compiling = json.loads((out / "metrics.json").read_text())["compile_s"]
            self._expected[scheme, kernel] = contents(out), time.monotonic() - started - compiling + 1
        return self._expected[scheme, kernel]

    def interrupted_run(self, scheme, kernel, interruptions=1, kills=0):
        """Run to the end through interruptions, and compare."""
        expected, seconds = self.expected(scheme, kernel)
        place = Path(tempfile.mkdtemp(dir=self.folder))
        out, log = place / "run", self.folder / f"{place.name}.log"
        code, times = None, 0
        while code != 0:
            process = launch(self.arguments(out, scheme, kernel), log)
            if times < interruptions + kills:
                if times < kills:
                    sent = signal.SIGKILL
                    self.wait_for_checkpoint(process, place)
                    time.sleep(self.random.uniform(0, 0.2))
                else:
                    sent = self.random.choice(SIGNALS)
                    # Half of them at any moment, mostly before the first iteration; half in the work.
                    in_the_work = self.random.random() < 0.5
                    if in_the_work:
                        self.wait_for_checkpoint(process, place)
                    time.sleep(self.random.uniform(0, 0.5 if in_the_work else seconds))
                times += 1
                asked = time.monotonic()
                if (code := finished(process)) is None:
                    os.kill(process, sent)
                    code = wait(process, MAX_SECONDS_TO_STOP)
                    self.slowest_s = max(self.slowest_s, time.monotonic() - asked)
                # A signal may come too late, or before the first iteration, where nothing handles it but
                # Python, which makes an exception of SIGINT.
                allowed = {0, -sent} if sent == signal.SIGKILL else {0, 75, -sent}
                allowed |= {130} if sent == signal.SIGINT else set()
                assert code in allowed, (sent, code, log.read_text())
                self.counts[f"{sent.name} {'too late' if code == 0 else code}"] += 1
            else:
                code = wait(process, 600)
                assert code == 0, (code, log.read_text())
        printed = log.read_text()
        assert not any(word in printed for word in ("could not", "not used", "Traceback")), printed
        found = contents(out)
        for what, one, other in zip(("metrics", "trace", "posterior"), found, expected, strict=True):
            assert one == other, f"{what} differs: {difference(one, other)}\n{printed}"
        left = sorted(str(path.relative_to(place)) for path in place.rglob("*"))
        assert left == ["run", "run/.lock", *(f"run/{name}" for name in RESULTS)], left
        self.counts["resumed"] += json.loads((out / "metrics.json").read_text())["resumed"]
        self.counts["runs"] += 1

    def wait_for_checkpoint(self, process, place):
        """Wait until the process has saved a checkpoint after those that were there when it began."""
        before = self.newest(place)
        while self.newest(place) <= before and not os.waitid(
            os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            time.sleep(0.005)

    @staticmethod
    def newest(place):
        found = (path.name for path in place.glob("run.checkpoints/*/*"))
        return max((int(name) for name in found if name.isdecimal()), default=0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--kills", type=int, default=0, help="SIGKILLs per run, each after another checkpoint"
    )
    parser.add_argument("--schemes", nargs="+", default=list(SCHEDULES))
    parser.add_argument("--iterations", type=int, default=200, help="more on a fast machine")
    parser.add_argument("--cache", type=Path, help="where compiled programs are kept")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        soak = Soak(Path(name), options.seed, options.cache or Path(name, "compiled"), options.iterations)
        kinds = itertools.cycle(itertools.product(options.schemes, KERNELS))
        for run, (scheme, kernel) in zip(range(options.runs), kinds, strict=False):
            soak.interrupted_run(scheme, kernel, soak.random.randint(1, 3), options.kills)
            if (run + 1) % 12 == 0 or run + 1 == options.runs:
                print(f"{run + 1} runs, slowest stop {soak.slowest_s:.1f} s:", dict(soak.counts), flush=True)
    # Runs that are over before they are killed prove nothing.
    if soak.counts["SIGKILL -9"] < options.kills * options.runs:
        sys.exit("too few runs were killed in time: give more --iterations")
    sys.exit(0)

"""The workflow on a real SLURM of one node: same artefacts as locally, and what befalls jobs on a cluster.

Starts the cluster by itself, as root, and takes minutes, so it runs only when asked for:
``pytest -m slurm -n 0``.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest
from project_copy import copy_project
from slurm_cluster import missing_commands, one_node_slurm

SNAKEMAKE = Path(sys.executable).with_name("snakemake")
PROFILE = ["--workflow-profile", "profiles/slurm"]
# The cluster has no accounting database, answers at once and has no network file system.
PROFILE += ["--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "1"]
PROFILE += ["--seconds-between-status-checks", "1", "--latency-wait", "5"]
CLOCKS = ["runtime_s", "compile_s", "evaluation_s", "peak_memory_mb"]
TIMELESS_FIGURES = ("schedules", "beta_traces", "degeneracy", "reliability", "learning_curves")

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(
        bool(missing_commands()) or os.getuid() != 0,
        reason="SLURM is not here, or not root; .ci/run installs it",
    ),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project of its own."""
    return copy_project(tmp_path_factory.mktemp("slurm"))


@pytest.fixture(scope="module")
def cluster():
    """SLURM is up."""
    with one_node_slurm():
        yield


WHOLE = ["seeds=[0]"]
"""Every dataset, scheme, kernel and rule; a second seed would show nothing more."""


def snakemake(folder, *options, config):
    command = [SNAKEMAKE, *options, "--config", "scale=tiny", *config]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def jobs():
    """What SLURM knows of every job: one mapping each, in the order of submission."""
    said = subprocess.run(["scontrol", "-o", "show", "job"], capture_output=True, text=True).stdout
    return [
        dict(re.findall(r"(\S+?)=(\S*)", line)) for line in said.splitlines() if line.startswith("JobId=")
    ]


def of_this_study(before):
    return [job for job in jobs() if job["JobId"] not in {old["JobId"] for old in before}]


def files_below(folder):
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def test_the_whole_dag_gives_the_same_artefacts_as_a_local_run(project, cluster):
    local = snakemake(project, "--cores", "2", config=[*WHOLE, "output_dir=local"])
    assert local.returncode == 0, local.stdout
    before = jobs()
    result = snakemake(project, *PROFILE, config=[*WHOLE, "output_dir=cluster"])
    assert result.returncode == 0, result.stdout
    submitted = of_this_study(before)
    assert len(submitted) == 24
    assert {job["JobState"] for job in submitted} == {"COMPLETED"}

    local, cluster = project / "local" / "tiny", project / "cluster" / "tiny"
    assert files_below(cluster) == files_below(local)
    ours, theirs = (pd.read_csv(folder / "runs.csv").drop(columns=CLOCKS) for folder in (cluster, local))
    pd.testing.assert_frame_equal(ours, theirs, check_exact=True)
    for trace in local.glob("runs/*/*/*/*/trace.csv"):
        other = cluster / trace.relative_to(local)
        ours, theirs = (pd.read_csv(file).drop(columns="runtime_s") for file in (other, trace))
        pd.testing.assert_frame_equal(ours, theirs, check_exact=True)
    for name in TIMELESS_FIGURES:
        picture = Path("figures") / f"{name}.png"
        assert (cluster / picture).read_bytes() == (local / picture).read_bytes(), name


def test_four_runs_packed_into_one_job_use_one_gpu(project, cluster):
    before = jobs()
    packing = ["--groups", "run=runs", "--group-components", "runs=4"]
    config = [
        "output_dir=packed",
        "device=auto",
        "datasets=[mnist]",
        "schemes=[constant,linear]",
        "kernels=[ld]",
    ]
    result = snakemake(project, "summary", *PROFILE, *packing, config=config)
    assert result.returncode == 0, result.stdout
    (job,) = of_this_study(before)
    assert job["JobState"] == "COMPLETED"
    assert job["TresPerJob"] == "gres:gpu:1"
    assert len(list(project.glob("packed/tiny/runs/*/*/*/*/metrics.json"))) == 4
    # Six minutes each, one after the other.
    assert job["TimeLimit"] == "00:24:00"


class Mishaps(threading.Thread):
    """Waits until each of some runs is half-way and then does something to its job, once."""

    def __init__(self, runs, commands):
        super().__init__(daemon=True)
        self.runs, self.commands, self.done = runs, dict(commands), {}
        self.over = threading.Event()

    def run(self):
        while self.commands and not self.over.wait(0.3):
            for job in jobs():
                seed = job.get("Comment", "").rpartition("_")[2]
                log = self.runs / f"seed-{seed}.log"
                if seed in self.commands and job["JobState"] == "RUNNING" and half_way(log):
                    subprocess.run([*self.commands.pop(seed), job["JobId"]])
                    self.done[seed] = job["JobId"]


def half_way(log):
    """Whether a run is well under way: a line at the first iteration, another some seconds later."""
    return log.exists() and len(re.findall(r"^iteration ", log.read_text(), re.MULTILINE)) > 1


@pytest.fixture(scope="module")
def rough(project, cluster):
    """Four runs of which one is cancelled, one requeued and one eats its memory; and what Snakemake said."""
    rule = project / "workflow" / "rules" / "runs.smk"
    text = rule.read_text()
    eat = "python -c \\\"import time; x = b'1' * 4_000_000_000; time.sleep(30)\\\""
    rule.write_text(
        text.replace('"smcda run --data', f'"test {{wildcards.seed}} = 2 && {eat}; smcda run --data')
    )
    runs = project / "rough" / "tiny" / "logs" / "runs" / "mnist" / "linear" / "ld"
    mishaps = Mishaps(runs, {"0": ["scancel"], "1": ["scontrol", "requeue"]})
    before = jobs()
    mishaps.start()
    config = ["output_dir=rough", "datasets=[mnist]", "schemes=[linear]", "kernels=[ld]", "seeds=[0,1,2,3]"]
    config += ["iterations=500"]
    result = snakemake(project, "summary", *PROFILE, "--retries", "1", config=config)
    mishaps.over.set()
    rule.write_text(text)
    return result.stdout, mishaps.done, of_this_study(before), runs


def metrics(rough, seed):
    logs = rough[3]
    file = logs.parents[4] / "runs" / "mnist" / "linear" / "ld" / f"seed-{seed}" / "metrics.json"
    return json.loads(file.read_text())


def test_a_job_over_its_memory_fails_by_name_and_the_rest_goes_on(rough):
    said, _, submitted, logs = rough
    assert "missing: mnist linear ld seed 2" in said
    assert said.count("missing: ") == 1
    states = [job["JobState"] for job in submitted if job["Comment"].endswith("_2")]
    assert len(states) == 2, "the run and its retry"
    assert "COMPLETED" not in states
    of_slurm = logs.parents[6] / ".snakemake" / "slurm_logs" / "rule_run" / "mnist_linear_ld_2"
    assert all("exceeded memory limit" in log.read_text() for log in of_slurm.iterdir())
    for seed in (0, 1, 3):
        assert metrics(rough, seed)["iterations"] == 500


def test_a_cancelled_job_is_retried_and_resumes_from_its_checkpoint(rough):
    _, done, submitted, logs = rough
    states = {job["JobId"]: job["JobState"] for job in submitted if job["Comment"].endswith("_0")}
    assert states.pop(done["0"]) == "CANCELLED"
    assert list(states.values()) == ["COMPLETED"]
    assert "resuming at iteration" in (logs / "seed-0.log").read_text()
    assert metrics(rough, 0)["resumed"] == 1


def test_a_requeued_job_goes_on_from_its_checkpoint(rough):
    _, done, submitted, logs = rough
    (job,) = [job for job in submitted if job["Comment"].endswith("_1")]
    assert (job["JobId"], job["JobState"], job["Restarts"]) == (done["1"], "COMPLETED", "1")
    assert "resuming at iteration" in (logs / "seed-1.log").read_text()
    assert metrics(rough, 1)["resumed"] == 1


RUN = [Path(sys.executable).with_name("smcda"), "run", "--network", "lenet5", "--kernel", "hmc", "--seed", 3]
RUN += ["--scheme", "constant", "--particles", 8, "--step-size", 0.02, "--batch-size", 9, "--device", "cpu"]


@pytest.fixture
def submit(cluster, cache, tmp_path):
    """Submit a script as a job of two tasks, with `$run` for a run; returns its number and its log."""
    data = tmp_path / "small.npz"
    subprocess.run([RUN[0], "data", "mnist", "--bundled", "--train", "60", "--test", "30", "--out", data])
    run = shlex.join(map(str, [*RUN, "--data", data, "--compilation-cache", cache]))

    def submit(text):
        log = tmp_path / "log"
        script = f'#!/bin/sh\ncd {tmp_path}\nrun="{run}"\n{text}\n'
        command = ["sbatch", "--parsable", "--ntasks=2", "--mem=4000", f"--output={log}"]
        said = subprocess.run(command, input=script, text=True, capture_output=True, check=True)
        return said.stdout.strip(), log

    return submit


def wait_for(text, log, seconds=300):
    deadline = time.monotonic() + seconds
    while not (log.exists() and text in log.read_text()):
        assert time.monotonic() < deadline, log.read_text() if log.exists() else "nothing was written"
        time.sleep(0.2)
    return log.read_text()


def test_srun_makes_one_run_of_two_tasks_and_only_when_asked(submit, tmp_path):
    _, log = submit(
        "$run --iterations 6 --out one; echo one $?\n"
        "srun -n 2 $run --iterations 6 --hosts 2 --out two; echo two $?\n"
        "srun -n 2 $run --iterations 6 --hosts 2 --out two; echo again $?\n"
        "$run --iterations 6 --hosts 2 --out no_step; echo no step $?\n"
        "srun -n 2 $run --iterations 6 --hosts 3 --out three; echo three $?\n"
    )
    said = wait_for("\nthree ", log)
    for line in ("one 0", "two 0", "again 2", "no step 2", "three 2"):
        assert f"\n{line}\n" in said, said
    assert said.count("already holds a finished run") == 1
    assert said.count("was not started as one of several") == 1
    assert said.count("hosts is 3, but SLURM_NTASKS is 2") == 1
    columns = ["resampled", "unique_ancestors", "batch_size"]
    one, two = (pd.read_csv(tmp_path / name / "trace.csv") for name in ("one", "two"))
    pd.testing.assert_frame_equal(one[columns], two[columns])
    found = [json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("one", "two")]
    assert [metrics["devices"] for metrics in found] == [1, 2]
    assert found[0]["test_accuracy"] == found[1]["test_accuracy"]


def test_a_step_of_two_tasks_that_is_told_to_stop_goes_on_when_started_again(submit, tmp_path):
    script = "srun -n 2 $run --iterations 400 --hosts 2 --out two; echo ended $?"
    job, log = submit(script)
    wait_for("\niteration ", log)
    subprocess.run(["scancel", "--signal=TERM", job], check=True)
    said = wait_for("\nended ", log)
    assert "\nended 75\n" in said
    assert said.count("stopped by SIGTERM at iteration") == 1
    _, log = submit(script)
    said = wait_for("\nended 0\n", log)
    assert said.count("resuming at iteration") == 1
    assert json.loads((tmp_path / "two" / "metrics.json").read_text())["resumed"] == 1

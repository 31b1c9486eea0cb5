"""The workflow on a real SLURM of one node: same artefacts as locally, and what befalls jobs on a cluster.

Starts the cluster by itself, as root, and takes minutes, so it runs only when asked for:
``pytest -m slurm -n 0``.
"""

import json
import os
import re
import subprocess
import threading
from pathlib import Path

import pandas as pd
import pytest
from helpers.project_copy import SNAKEMAKE, copy_project, edited
from helpers.results import CLOCKS
from helpers.slurm_cluster import missing_commands, one_node_slurm

PROFILE = ["--workflow-profile", "profiles/slurm"]
# The cluster has no accounting database, answers at once and has no network file system.
PROFILE += ["--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "1"]
PROFILE += ["--seconds-between-status-checks", "1", "--latency-wait", "5"]
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
    environment = os.environ | {"PYTHONPATH": str(folder)}  # the copy of the package, also in jobs
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run(command, cwd=folder, env=environment, **streams)


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
    ours, theirs = (
        pd.read_csv(folder / "runs.csv").drop(columns=list(CLOCKS), errors="ignore")
        for folder in (cluster, local)
    )
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
    """Four runs of which one is cancelled, one requeued and one eats its memory; and what Snakemake wrote."""
    eat = "python -c \\\"import time; x = b'1' * 4_000_000_000; time.sleep(30)\\\""
    fails = f'"test {{wildcards.seed}} = 2 && {eat}; smcda run --data'
    runs = project / "rough" / "tiny" / "logs" / "runs" / "mnist" / "linear" / "ld"
    mishaps = Mishaps(runs, {"0": ["scancel"], "1": ["scontrol", "requeue"]})
    before = jobs()
    mishaps.start()
    config = ["output_dir=rough", "datasets=[mnist]", "schemes=[linear]", "kernels=[ld]", "seeds=[0,1,2,3]"]
    config += ["iterations=3000"]  # long enough to be stopped well before the end
    with edited(project / "workflow" / "rules" / "run.smk", '"smcda run --data', fails):
        result = snakemake(project, "summary", *PROFILE, "--retries", "1", config=config)
    mishaps.over.set()
    return result.stdout, mishaps.done, of_this_study(before), runs


def metrics(rough, seed):
    logs = rough[3]
    file = logs.parents[4] / "runs" / "mnist" / "linear" / "ld" / f"seed-{seed}" / "metrics.json"
    return json.loads(file.read_text())


def test_a_job_over_its_memory_fails_and_the_others_finish(rough):
    output, _, submitted, logs = rough
    assert re.search(r"^Error in rule run:(\n    .*)*seed-2", output, re.MULTILINE)
    assert not (logs.parents[4] / "summary.csv").exists()
    states = [job["JobState"] for job in submitted if job["Comment"].endswith("_2")]
    assert len(states) == 2, "the run and its retry"
    assert "COMPLETED" not in states
    of_slurm = logs.parents[6] / ".snakemake" / "slurm_logs" / "rule_run" / "runs_mnist_linear_ld_2"
    assert all("exceeded memory limit" in log.read_text() for log in of_slurm.iterdir())
    for seed in (0, 1, 3):
        assert metrics(rough, seed)["iterations"] == 3000


def test_a_cancelled_job_is_retried_and_resumes_from_its_checkpoint(rough):
    _, done, submitted, logs = rough
    states = {job["JobId"]: job["JobState"] for job in submitted if job["Comment"].endswith("_0")}
    assert states.pop(done["0"]) == "CANCELLED"
    assert list(states.values()) == ["COMPLETED"]
    assert "resuming at iteration" in (logs / "seed-0.log").read_text()
    assert metrics(rough, 0)["resumed"] == 1


def test_a_requeued_job_resumes_from_its_checkpoint(rough):
    _, done, submitted, logs = rough
    (job,) = [job for job in submitted if job["Comment"].endswith("_1")]
    assert (job["JobId"], job["JobState"], job["Restarts"]) == (done["1"], "COMPLETED", "1")
    assert "resuming at iteration" in (logs / "seed-1.log").read_text()
    assert metrics(rough, 1)["resumed"] == 1

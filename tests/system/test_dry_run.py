"""What Snakemake plans before any job: the published study, and one line for a config that can't be built."""

import re
import subprocess

import pytest
from filelock import FileLock
from helpers.project_copy import ROOT, SNAKEMAKE, copy_project

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return copy_project(tmp_path_factory.mktemp("plan"))


def dry_run(project, *options):
    return subprocess.run([SNAKEMAKE, "-n", *options], cwd=project, capture_output=True, text=True)


def commands(plan):
    assert plan.returncode == 0, plan.stderr
    return [line for line in plan.stdout.splitlines() if "smcda run" in line]


def test_snakemake_plans_the_120_published_runs(project):
    plan = dry_run(project, "--cores", "2", "--config", "scale=paper")
    assert re.search(r"^run +120$", plan.stdout, re.MULTILINE)
    planned = commands(plan)
    assert len(planned) == 120
    assert all("--particles 100 --iterations 200 --step-size 0.002" in line for line in planned)
    assert all("--batch-size 500" in line for line in planned)
    assert sum("--kernel hmc" in line and "--leapfrog-steps 3" in line for line in planned) == 60


def test_ablations_are_runs_with_their_own_settings(project):
    options = ["ablations", "--cores", "2", "--config", "scale=cpu", "seeds=[0]"]
    plan = dry_run(project, *options)
    planned = {line.partition(" --out ")[2].split()[0]: line for line in commands(plan)}
    place = "results/cpu/ablations/{}/fashion_mnist/constant/{}/seed-0".format
    assert "--step-size 0.006 " in planned[place("ld_3h", "ld")]
    assert "--batch-size 500" in planned[place("ld_3h", "ld")]
    assert "--batch-norm" not in planned[place("no_batch_norm", "hmc")]
    assert "--prior-scale fan_in" in planned[place("fan_in_prior", "hmc")]


def test_the_slurm_profile_plans_the_published_study_and_keeps_it_when_a_key_is_overruled(project):
    plan = dry_run(project, "--workflow-profile", "profiles/slurm", "--config", "particles=50")
    assert re.search(r"^run +120$", plan.stdout, re.MULTILINE)
    assert all("--particles 50 --iterations 200" in line for line in commands(plan))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("step_size=-1", "config: step_size is -1, but must be a finite number above 0"),
        ("batch_size=2001", "config: batch_size (kappa) is 2001, more than the 2000 training examples"),
    ],
)
def test_a_wrong_config_fails_in_one_line_before_any_job(project, change, message):
    plan = dry_run(project, "--cores", "1", "--config", change)
    assert plan.returncode != 0
    assert message in plan.stdout + plan.stderr
    assert "Traceback" not in plan.stdout + plan.stderr
    assert "smcda run" not in plan.stdout


def test_two_snakemakes_do_not_work_in_one_folder(project):
    (project / ".snakemake").mkdir(exist_ok=True)
    with FileLock(project / ".snakemake" / "smcda.lock"):
        command = [SNAKEMAKE, "results/tiny/data/mnist.npz", "--cores", "1", "--config", "scale=tiny"]
        refused = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "another Snakemake is at work in this folder" in refused.stdout + refused.stderr
    assert not (project / "results").exists()


def test_the_linter_has_nothing_to_say():
    command = [SNAKEMAKE.with_name("python"), ROOT / "tools" / "lint_workflow.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

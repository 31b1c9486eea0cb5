"""The config: what it resolves to, and one line for every way to get it wrong."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.yaml"
SNAKEMAKE = Path(sys.executable).with_name("snakemake")

spec = importlib.util.spec_from_file_location("study", ROOT / "workflow" / "study.py")
assert spec is not None
assert spec.loader is not None
study = importlib.util.module_from_spec(spec)
sys.modules["study"] = study
spec.loader.exec_module(study)


def resolve(**changes):
    config = yaml.safe_load((ROOT / "config.yaml").read_text()) | changes
    return study.resolve(config, SCHEMA)


def test_paper_scale_is_the_published_study():
    paper = resolve(scale="paper")
    published = {
        "particles": 100, "iterations": 200, "step_size": 0.002, "leapfrog_steps": 3, "batch_size": 500,
        "initial_batch": None, "resampling": "multinomial", "weight_target": "current", "delta_entropy": 1,
        "beta_restart": 0.1, "refine_from": 0.9, "source": "full", "train_images": None, "test_images": None,
    }  # fmt: skip
    assert {name: paper.settings[name] for name in published} == published
    assert len(paper.runs()) == 120
    assert len({tuple(run.values()) for run in paper.runs()}) == 120


def test_laptop_scale_keeps_the_published_pace_and_covers_everything():
    laptop = resolve(scale="laptop").settings
    published = 0.002**2 * 60_000
    assert laptop["step_size"] ** 2 * laptop["train_images"] == pytest.approx(published, rel=0.01)
    assert len(laptop["schemes"]) == 6
    assert len(laptop["kernels"]) == 2
    assert len(laptop["seeds"]) >= 2


def test_top_level_keys_overrule_the_scale():
    assert resolve(scale="paper", particles=7, seeds=[3]).settings["particles"] == 7
    assert len(resolve(scale="paper", seeds=[3]).runs()) == 24


def test_seeds_from_the_command_line_are_numbers():
    assert resolve(scale="paper", seeds=["3", "4"]).settings["seeds"] == [3, 4]
    with pytest.raises(study.ConfigError, match="seeds/0 is 'x', but must be of type integer"):
        resolve(scale="paper", seeds=["x"])


def test_a_run_is_told_only_what_it_reads():
    paper = resolve(scale="paper")
    assert "--delta-entropy" in paper.run_options("lenet5", "smooth_data_annealing", "ld")
    assert "--refine-from" in paper.run_options("lenet5", "linear", "ld")
    assert "--leapfrog-steps 3" in paper.run_options("lenet5", "linear", "hmc")
    for option in ("--delta-entropy", "--beta-restart", "--refine-from", "--leapfrog-steps"):
        assert option not in paper.run_options("lenet5", "constant", "ld")


def test_yes_and_no_may_be_written_as_in_yaml():
    assert resolve(scale="paper", batch_norm="false").settings["batch_norm"] is False
    assert resolve(batch_norm="true").settings["batch_norm"] is True
    with pytest.raises(study.ConfigError, match="batch_norm is 'maybe'"):
        resolve(batch_norm="maybe")


def test_nothing_may_be_written_as_in_yaml():
    """At every scale the prior has one standard deviation unless it is told otherwise."""
    assert resolve(scale="paper").settings["prior_scale"] == 0.1
    assert resolve(scale="paper", prior_scale="null").settings["prior_scale"] is None
    with pytest.raises(study.ConfigError, match="prior_scale is 'none', but must be of type number or null"):
        resolve(prior_scale="none")
    with pytest.raises(study.ConfigError, match="particles is 'null', but must be of type integer"):
        resolve(particles="null")


def test_prior_scale_reaches_every_run_that_has_one():
    assert "--prior-scale 0.1" in resolve(prior_scale=0.1).run_options("lenet5", "constant", "ld")
    assert "--prior-scale" not in resolve(prior_scale=None).run_options("lenet5", "constant", "ld")
    with pytest.raises(study.ConfigError, match="prior_scale is 0, but must be at least"):
        resolve(prior_scale=0)


def test_batch_norm_reaches_the_one_network_that_has_it():
    told = [resolve(scale="paper", batch_norm=on) for on in (True, False)]
    assert "--batch-norm" in told[0].run_options("fashion_cnn", "constant", "ld")
    assert "--batch-norm" not in told[0].run_options("lenet5", "constant", "ld")
    assert "--batch-norm" not in told[1].run_options("fashion_cnn", "constant", "ld")


def test_sources_of_data_become_options():
    assert resolve(scale="laptop").data_options(None, None).startswith("--bundled")
    assert resolve(scale="paper").data_options("idx", "cache") == "--mirror idx"
    assert resolve(scale="paper").data_options(None, "cache") == "--cache cache"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"partickles": 3}, "key 'partickles' is unknown (value 3): choose from "),
        ({"schemes": ["linaer"]}, "schemes/0 is 'linaer', but must be one of constant, full_batch"),
        ({"step_size": -0.1}, "step_size is -0.1, but must be above 0"),
        ({"seeds": []}, "seeds is [], but must have at least 1 entry"),
        ({"seeds": [1, 1]}, "seeds is [1, 1], but must not name anything twice"),
        ({"scale": "huge"}, "scale is 'huge', but must be one of laptop, paper, tiny"),
        ({"particles": 1}, "particles is 1, but must be at least 2"),
        ({"iterations": "many"}, "iterations is 'many', but must be of type integer"),
        ({"refine_from": 1.5}, "refine_from is 1.5, but must be at most 1"),
        ({"scales": {"laptop": {"seeds": [0], "kernel": "ld"}}}, "key 'kernel' in scales/laptop is unknown"),
        ({"scales": {"laptop": {}}}, "scales/laptop lacks the key 'seeds'"),
    ],
)
def test_a_wrong_config_is_refused_with_the_key_the_value_and_what_is_allowed(changes, message):
    with pytest.raises(study.ConfigError) as refusal:
        resolve(**changes)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_hash_sees_contents_and_not_dates(tmp_path):
    source = tmp_path / "a.py"
    source.write_text("x = 1\n")
    before = study.source_hash(source)
    source.touch()
    assert study.source_hash(source) == before
    source.write_text("x = 2\n")
    assert study.source_hash(source) != before


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of what Snakemake reads."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("Snakefile", "config.yaml", "workflow", "profiles", "paper", "smcda"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / name)
    return folder


def dry_run(project, *config):
    command = [SNAKEMAKE, "-n", "--cores", "2", *(["--config", *config] if config else [])]
    return subprocess.run(command, cwd=project, capture_output=True, text=True)


def test_snakemake_plans_the_120_published_runs(project):
    plan = dry_run(project, "scale=paper")
    assert plan.returncode == 0, plan.stderr
    assert re.search(r"^run +120$", plan.stdout, re.MULTILINE)
    commands = [line for line in plan.stdout.splitlines() if "smcda run" in line]
    assert len(commands) == 120
    assert all(
        "--particles 100 --iterations 200 --step-size 0.002 --batch-size 500" in line for line in commands
    )
    assert sum("--kernel hmc" in line and "--leapfrog-steps 3" in line for line in commands) == 60


def test_the_slurm_profile_plans_the_published_study_and_keeps_it_when_a_key_is_overruled(project):
    profile = ["--workflow-profile", "profiles/slurm"]
    command = [SNAKEMAKE, "-n", *profile, "--config", "particles=50"]
    plan = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert plan.returncode == 0, plan.stderr
    assert re.search(r"^run +120$", plan.stdout, re.MULTILINE)
    assert "--particles 50 --iterations 200" in plan.stdout


def test_snakemake_fails_on_a_wrong_config_before_any_job(project):
    plan = dry_run(project, "step_size=-1")
    assert plan.returncode != 0
    assert "config: step_size is -1, but must be above 0" in plan.stdout + plan.stderr
    assert "Traceback" not in plan.stdout + plan.stderr
    assert "smcda run" not in plan.stdout


def test_a_build_in_which_every_run_failed_does_not_pass_for_finished(project):
    """After a good build, a minibatch larger than the data: the run itself refuses it."""

    def build(*more, batch_size):
        what = ["datasets=[mnist]", "schemes=[constant]", "kernels=[ld]", "seeds=[0]", "iterations=2"]
        command = [SNAKEMAKE, "summary", "--cores", "1", *more, "--config", "scale=tiny", *what]
        command.append(f"batch_size={batch_size}")
        return subprocess.run(command, cwd=project, capture_output=True, text=True)

    assert build(batch_size=20).returncode == 0
    failed = build(batch_size=101)
    assert failed.returncode != 0
    assert "missing: mnist constant ld seed 0" in failed.stdout + failed.stderr
    plan = build("-n", batch_size=101)
    assert re.search(r"^run +1$", plan.stdout, re.MULTILINE), plan.stdout

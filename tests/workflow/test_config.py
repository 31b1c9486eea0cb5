"""The config: what it resolves to, and one line for every way to get it wrong."""

import sys

import pytest
from helpers.study import ROOT
from helpers.study import study_of as resolve
from lib.config import ConfigError

from smcda._options import options
from smcda.config import RunConfig, SamplerConfig


def test_paper_scale_is_the_published_study():
    paper = resolve(scale="paper")
    published = {
        "particles": 100, "iterations": 200, "step_size": 0.002, "leapfrog_steps": 3, "batch_size": 500,
        "initial_batch": None, "resampling": None, "weight_target": "current", "delta_entropy": 1,
        "beta_restart": 0.1, "refine_from": 0.9, "source": "full", "train_images": None, "test_images": None,
    }  # fmt: skip
    assert {name: paper.settings[name] for name in published} == published
    sampler = paper.run_config("mnist", "constant", "hmc").sampler
    assert (sampler.resampling, sampler.target, sampler.adjusted) == ("multinomial", "scaled", False)
    assert len(paper.runs()) == 120
    assert len({tuple(run.values()) for run in paper.runs()}) == 120


def test_cpu_scale_is_the_published_study_with_fewer_particles_and_seeds():
    paper, cpu = (resolve(scale=scale).settings for scale in ("paper", "cpu"))
    differing = {name for name in paper if paper[name] != cpu[name]}
    assert differing == {"device", "particles", "seeds", "ablations"}


def test_laptop_scale_keeps_the_published_pace_and_covers_everything():
    laptop = resolve(scale="laptop").settings
    published = 0.002**2 * 60_000
    assert laptop["step_size"] ** 2 * laptop["train_images"] == pytest.approx(published, rel=0.01)
    assert len(laptop["schemes"]) == 6
    assert len(laptop["kernels"]) == 2
    assert len(laptop["seeds"]) >= 3
    assert not set(laptop["seeds"]) & {10, 11, 12}, "on which its settings were chosen"


def test_defaults_are_those_of_the_package():
    settings = resolve(scales={"empty": {}}, scale="empty").settings
    defaults = {option.name: option.default for option in (*options(SamplerConfig), *options(RunConfig))}
    shared = settings.keys() & defaults.keys()
    assert {"particles", "step_size", "prior_scale", "evaluate_every", "leapfrog_steps"} < shared
    assert {name: settings[name] for name in shared} == {name: defaults[name] for name in shared}


def test_top_level_keys_overrule_the_scale():
    assert resolve(scale="paper", particles=7).settings["particles"] == 7
    assert len(resolve(scale="paper", seeds=[3]).runs()) == 24


def test_values_of_the_command_line_may_arrive_as_text():
    assert resolve(scale="paper", seeds=["3", "4"]).settings["seeds"] == [3, 4]
    assert resolve(scale="paper", batch_norm="false").settings["batch_norm"] is False
    assert resolve(batch_norm="true").settings["batch_norm"] is True
    assert resolve(train_images="null").settings["train_images"] is None


def test_a_run_is_given_only_what_it_reads():
    paper = resolve(scale="paper")
    assert "--delta-entropy" in paper.run_options("mnist", "smooth_data_annealing", "ld")
    assert "--refine-from" in paper.run_options("mnist", "linear", "ld")
    assert "--leapfrog-steps 3" in paper.run_options("mnist", "linear", "hmc")
    for option in ("--delta-entropy", "--beta-restart", "--refine-from", "--leapfrog-steps"):
        assert option not in paper.run_options("mnist", "constant", "ld")


def test_the_prior_reaches_every_run():
    assert "--prior-scale 0.1" in resolve().run_options("mnist", "constant", "ld")
    for prior in ("fan_in", "hierarchical"):
        options = resolve(prior_scale=prior).run_options("mnist", "constant", "ld")
        assert f"--prior-scale {prior}" in options
    # In quotes, because to a shell a star stands for names of files.
    assert "--prior-scale '2*fan_in'" in resolve(prior_scale="2*fan_in").run_options(
        "mnist", "constant", "ld"
    )


def test_batch_norm_reaches_the_one_network_that_has_it():
    on, off = (resolve(scale="paper", batch_norm=value) for value in (True, False))
    assert "--batch-norm" in on.run_options("fashion_mnist", "constant", "ld")
    assert "--batch-norm" not in on.run_options("mnist", "constant", "ld")
    assert "--batch-norm" not in off.run_options("fashion_mnist", "constant", "ld")


def test_sources_of_data_become_options():
    places = {"mirror_dir": "idx files", "download_cache": "cache"}
    assert resolve(scale="laptop", **places).data_options() == "--train 2000 --test 1000 --bundled"
    assert resolve(scale="paper", **places).data_options() == "--mirror 'idx files'"
    assert resolve(scale="paper", download_cache="cache").data_options() == "--cache cache"


def test_an_ablation_is_the_scale_with_its_changes():
    cpu = resolve(scale="cpu", seeds=[5], step_size=0.001)
    long, wide = cpu.at("ablations/ld_equal_gradients"), cpu.at("ablations/particles_8")
    assert long.settings["iterations"] == 400
    assert long.runs() == [
        {
            "dataset": dataset,
            "scheme": "constant",
            "kernel": "ld",
            "seed": 5,
            "ablation": "ld_equal_gradients",
        }
        for dataset in ("mnist", "fashion_mnist")
    ]
    assert wide.settings["kernels"] == ["ld", "hmc"]
    for ablation in (long, wide):
        assert ablation.settings["step_size"] == 0.001
    assert cpu.at("ablations/ld_3h").settings["step_size"] == 0.006
    assert cpu.at("runs") == cpu


def test_every_ablation_of_the_config_changes_a_run():
    for scale in ("cpu", "tiny"):
        study = resolve(scale=scale)
        assert study.ablations()
        for ablation in study.ablations():
            for run in ablation.runs():
                cell = (run["dataset"], run["scheme"], run["kernel"])
                assert ablation.run_options(*cell) != study.run_options(*cell), (ablation.path, cell)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"partickles": 3}, "key 'partickles' is unknown (value 3): choose from "),
        ({"schemes": ["linaer"]}, "schemes/0 is 'linaer', but must be 'constant', 'full_batch'"),
        ({"step_size": -0.1}, "step_size is -0.1, but must be a finite number above 0"),
        ({"step_size": float("nan")}, "step_size is nan, but must be a finite number above 0"),
        ({"seeds": []}, "seeds is [], but must have at least 1 item"),
        ({"seeds": [1, 1]}, "seeds is [1, 1], but must not name anything twice"),
        ({"seeds": ["x"]}, "seeds/0 is 'x', but must be a valid integer"),
        ({"scale": "huge"}, "scale is 'huge', but must be one of laptop, paper, cpu, tiny"),
        ({"particles": 1}, "particles is 1, but must be a whole number of at least 2"),
        ({"max_moves": "null"}, "max_moves is None, but must be a whole number"),
        ({"particles": -(2**70)}, f"particles is {-(2**70)}, but must be a whole number"),
        ({"step_size": 10**400}, "but must be a finite number"),
        ({"iterations": "many"}, "iterations is 'many', but must be a whole number"),
        ({"refine_from": 1.5}, "refine_from is 1.5, but must be a finite number above 0 and at most 1"),
        ({"batch_norm": "maybe"}, "batch_norm is 'maybe', but must be of type bool"),
        ({"prior_scale": 0}, "prior_scale is 0, but must be a finite number of at least 1e-06"),
        ({"prior_scale": "wide"}, "prior_scale is 'wide', but must be a finite number"),
        (
            {"prior_scale": "0*fan_in"},
            "prior_scale is '0*fan_in', but must be a finite number of at least 1e-06",
        ),
        ({"output_dir": "a{b}"}, "output_dir is 'a{b}', but must match pattern"),
        ({3: 4}, "key 3 in config is not text: put it in quotes"),
        ({"scales": {"laptop": {"kernel": "ld"}}}, "key 'kernel' in scales/laptop is unknown"),
        ({"scales": {"laptop": {"particles": 1}}}, "scales/laptop: particles is 1, but must be"),
        ({"train_images": 2001}, "train_images is 2001, but source bundled has 2000: choose at most 2000"),
        ({"test_images": 1001}, "test_images is 1001, but source bundled has 1000: choose at most 1000"),
        ({"scale": "paper", "train_images": 60_001}, "train_images is 60001, but source full has 60000"),
        ({"batch_size": 2001}, "batch_size (kappa) is 2001, more than the 2000 training examples"),
        ({"initial_batch": 2001}, "initial_batch (C) is 2001, more than the 2000 training examples"),
        ({"batch_norm": True, "initial_batch": 30}, "initial_batch is 30, but with batch_norm it must be"),
        ({"ablations": {"a": {"particles": 1}}}, "ablations/a: particles is 1, but must be"),
        ({"ablations": {"a": {"train_images": 9}}}, "key 'train_images' in ablations/a is unknown"),
        ({"ablations": {"a": {"batch_size": 2001}}}, "ablations/a: batch_size (kappa) is 2001, more than"),
        ({"ablations": {"a/b": {}}}, "ablations/a/b/[key] is 'a/b', but must match pattern"),
    ],
)
def test_a_wrong_config_is_refused_with_the_key_the_value_and_what_is_allowed(changes, message):
    with pytest.raises(ConfigError) as refusal:
        resolve(changes)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_schema_and_the_reference_page_are_those_of_the_models(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from write_config_reference import FILES

    for path, write in FILES.items():
        assert path.read_text() == write(), f"{path} is stale: run tools/write_config_reference.py"
    sys.modules.pop("write_config_reference")

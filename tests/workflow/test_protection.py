"""A finished study is protected: which configs would change or leave out one of its runs."""

import json

import pytest
from helpers import study
from lib.config import ConfigError
from lib.study import protect


def study_of(**changes):
    return study.study_of({"scale": "tiny"}, **changes)


@pytest.fixture
def finished(tmp_path):
    """Record studies as the rules do."""

    def write(*studies):
        file = tmp_path / "study.json"
        file.write_text(json.dumps({study.path: study.record("a hash") for study in studies}))
        return file

    return write


def test_results_go_to_the_folder_of_the_study():
    assert study_of().folder == "results/tiny"
    assert study_of(study="mine", output_dir="there").folder == "there/mine"
    with pytest.raises(ConfigError, match="study is '../tiny', but must match pattern"):
        study_of(study="../tiny")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({}, {}),
        ({"seeds": [0, 1]}, {"seeds": [7, 1, 0]}),
        ({"schemes": ["constant"], "kernels": ["ld"]}, {}),
        # Nothing that was run reads them.
        ({"schemes": ["constant"], "delta_entropy": 1}, {"delta_entropy": 2}),
        ({"kernels": ["ld"]}, {"leapfrog_steps": 9}),
        ({"datasets": ["mnist"]}, {"batch_norm": True}),
        ({}, {"mirror_dir": "a", "download_cache": "b"}),
        ({"source": "full", "mirror_dir": "a", "download_cache": "b"}, {"source": "full", "mirror_dir": "a"}),
        # They decide no result.
        ({}, {"checkpoint_every": 5, "compilation_cache": "elsewhere", "seconds_per_evaluation": 1.0}),
    ],
)
def test_a_config_that_changes_no_finished_run_is_let_through(before, now, finished):
    file = finished(study_of(**before))
    assert protect([study_of(**now)], file) == json.loads(file.read_text())


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        ({}, {"step_size": 0.01}, "(step_size is 0.03 there, 0.01 is requested)"),
        ({}, {"seeds": [7]}, "(seeds is [0, 1] there, [7] is requested)"),
        (
            {},
            {"datasets": ["mnist"]},
            "(datasets is ['mnist', 'fashion_mnist'] there, ['mnist'] is requested)",
        ),
        ({"kernels": ["ld"]}, {"kernels": ["hmc"]}, "(kernels is ['ld'] there, ['hmc'] is requested)"),
        ({}, {"leapfrog_steps": 9}, "(leapfrog_steps is None there, 9 is requested)"),
        ({"leapfrog_steps": 9}, {}, "(leapfrog_steps is 9 there, None is requested)"),
        ({}, {"batch_norm": True}, "(batch_norm is False there, True is requested)"),
        ({}, {"device": "auto"}, "(device is cpu there, auto is requested)"),
        ({}, {"train_images": 50}, "(train_images is 100 there, 50 is requested)"),
        (
            {"source": "full", "mirror_dir": "a"},
            {"source": "full"},
            "(mirror_dir is a there, None is requested)",
        ),
        ({}, {"scale": "laptop", "study": "tiny"}, "; iterations is 10 there, 20 is requested"),
    ],
)
def test_a_config_that_would_change_a_finished_run_is_refused_in_one_line(before, now, message, finished):
    file = finished(study_of(**before))
    with pytest.raises(ConfigError) as refusal:
        protect([study_of(**now)], file)
    assert str(refusal.value).startswith(f"{file.parent} holds a finished study of other settings (")
    assert message in str(refusal.value)
    assert "study=NAME" in str(refusal.value) and "replace=true" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_ablations_are_protected_each_by_its_own_settings(finished):
    file = finished(*study_of().ablations())
    protect(
        study_of(ablations={"particles_2": {"particles": 2, "kernels": ["ld"]}, "new": {}}).ablations(), file
    )
    with pytest.raises(ConfigError, match="ablations/particles_2: particles is 2 there, 4 is requested"):
        protect(study_of(ablations={"particles_2": {"particles": 4, "kernels": ["ld"]}}).ablations(), file)
    with pytest.raises(ConfigError, match="ablations/particles_2 is recorded, not requested"):
        protect(study_of(ablations={"new": {}}).ablations(), file)


def test_a_record_that_is_not_there_protects_nothing_and_a_damaged_one_is_refused(tmp_path):
    file = tmp_path / "study.json"
    assert protect([study_of()], file) == {}
    for text in ("", "[]", '{"runs": 3}', '{"runs": {"seeds": 3}}'):
        file.write_text(text)
        with pytest.raises(ConfigError, match=r"study\.json can't be read .*: restore it"):
            protect([study_of()], file)

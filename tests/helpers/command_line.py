"""The command, called in this process on a tiny run."""

import contextlib
import io

from smcda.cli import main


def call(*arguments):
    """Exit code, standard output and standard error of the command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
    return code, out.getvalue(), err.getvalue()


def make_options(data, cache, out, /, **changes):
    """Build arguments of a tiny run; a change to None leaves an option out, one to True makes it a flag."""
    options = {
        "data": data, "model": "lenet5", "scheme": "linear", "kernel": "hmc", "seed": 0, "out": out,
        "particles": 3, "iterations": 4, "batch_size": 20, "step_size": 0.01, "evaluate_every": 3,
        "compilation_cache": cache,
    } | changes  # fmt: skip
    arguments = ["run"]
    for name, value in options.items():
        if value is not None:
            arguments += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return arguments


def assert_refused(result, *named):
    code, out, err = result
    assert (code, out) == (2, ""), err
    assert err.endswith("\n") and err.count("\n") == 1, err
    for name in named:
        assert str(name) in err

"""`python -m smcda` is the command `smcda`."""

import subprocess
import sys

import pytest
from helpers.command_line import call


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["data", "no_such_dataset"], []])
def test_the_module_answers_as_the_command_does(arguments, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    done = subprocess.run([sys.executable, "-m", "smcda", *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == call(*arguments)
    assert "smcda" in done.stdout + done.stderr

"""The soak, short enough for every day: real processes, real signals, real kills."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("soak.py")


@pytest.mark.system
def test_interrupted_runs_end_as_undisturbed_ones_and_leave_nothing(cache, tmp_path):
    # The moments differ from run to run on any machine; the seed only decides what is tried.
    options = ["--runs", "1", "--kills", "5", "--seed", "7", "--schemes", "linear", "--cache", str(cache)]
    done = subprocess.run(
        [sys.executable, SCRIPT, *options],
        capture_output=True,
        text=True,
        timeout=1200,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 runs" in done.stdout
    assert list(tmp_path.iterdir()) == []

"""The demo, with real training jobs that are over in a moment."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from treadle.journal.journal import read
from treadle.study.whatif import completion_s, recorded_s

# Looked for and not imported: that takes seconds, also where this test is not run.
pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="PyTorch is not installed: the demo's training needs it"
)


def test_the_demo_trains_resizes_and_compares(tmp_path: Path) -> None:
    journal = tmp_path / "demo.journal"
    command = [sys.executable, "-m", "treadle", "demo", "--devices", "2", "--scale", "0.03"]
    done = subprocess.run(
        [*command, "--keep", str(journal)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "TREADLE_URL": "unix:/nobody/is/there"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Treadle on 2 devices, policy afs: ")
    for name in ("vision", "probe-a", "probe-b", "tuning", "probe-c"):
        assert any(line.endswith(f"{name:<8} finished") for line in lines), done.stdout
    heads = next(line for line in lines if line.startswith("JOB"))
    assert heads.split() == ["JOB", "TREADLE", "FIFO", "TIMES", *heads.split()[4:]]
    assert any(line.startswith("average ") for line in lines)
    recorded = recorded_s(read(journal))
    fifo = completion_s(read(journal), "fifo", lambda: 0.0)
    assert set(recorded) == set(fifo)
    assert len(recorded) == 5

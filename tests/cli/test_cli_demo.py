"""The demo, with real training jobs that are over in a moment."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from treadle.cli.study.demo import _said_of
from treadle.journal.journal import read
from treadle.study.own_orders import CLOSE, error
from treadle.study.whatif import own_orders_s, recorded_s

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
    assert heads.split()[:2] == ["JOB", "TREADLE"]
    recorded = recorded_s(read(journal))
    assert len(recorded) == 5
    off = error(recorded, own_orders_s(read(journal), lambda: 0.0))
    compared = any(line.startswith("average ") for line in lines)
    assert compared == (off <= CLOSE)
    assert f"{off:.0%} off" in done.stdout.replace("\n", " ")


def test_u11_a_model_that_is_far_off_is_not_compared_with() -> None:
    assert "No comparison" in _said_of(CLOSE + 0.01, "")
    assert "No comparison" in _said_of(error({"a": 1.0}, {}), "")
    ratio = " FIFO's average is 1.4 times Treadle's."
    assert ratio in _said_of(0.02, ratio)

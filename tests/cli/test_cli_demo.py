"""The demo, with real training jobs that are over in a moment."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.shared import THOROUGH

from treadle.cli.study.demo import _completions
from treadle.cli.study.demo_sharing import (
    SETTLES_S,
    TOGETHER_S,
    Point,
    Steps,
    compared,
    told,
    unmeasured,
)
from treadle.journal.journal import read
from treadle.study.own_orders import CLOSE, error
from treadle.study.whatif import contradicted, recorded, simulated, with_own_orders
from treadle.wire.machine import EventView

# Looked for and not imported: that takes seconds, also where this test is not run.
pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="PyTorch is not installed: the demo's training needs it"
)


@pytest.mark.slow
def test_the_demo_trains_resizes_compares_and_lets_two_jobs_share(tmp_path: Path) -> None:
    """The second part takes a minute: a job is watched alone for 20 s before another joins it."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core: two jobs that share it gain nothing")
    journal = tmp_path / "demo.journal"
    command = [sys.executable, "-m", "treadle", "demo", "--devices", "2", "--scale", "0.03"]
    command += [] if THOROUGH else ["--only", "resizing"]
    done = subprocess.run(
        [*command, "--keep", str(journal)],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
        env={**os.environ, "TREADLE_URL": "unix:/nobody/is/there"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    resizing, _, sharing = done.stdout.partition("\nTwo jobs on one device ")
    check_resizing(resizing, journal)
    if THOROUGH:
        check_sharing(sharing)


def check_resizing(text: str, journal: Path) -> None:
    lines = text.splitlines()
    assert lines[0].startswith("Treadle on 2 devices, policy afs: ")
    for name in ("vision", "probe-a", "probe-b", "tuning", "probe-c"):
        assert any(line.endswith(f"{name:<8} finished") for line in lines), text
    heads = next(line for line in lines if line.startswith("JOB"))
    assert heads.split()[:2] == ["JOB", "TREADLE"]
    kept = read(journal)
    lives = recorded(kept)
    assert len(lives) == 5
    off = error(_completions(lives), _completions(with_own_orders(kept)))
    doubted = contradicted(lives, simulated(kept, "fifo"))
    compared = any(line.startswith("average ") for line in lines)
    assert compared == (off <= CLOSE and doubted is None), text
    said = text.replace("\n", " ")
    assert (f"{off:.0%} off" in said) == (off > CLOSE or doubted is None)
    assert ("No comparison: " in said) != compared


def check_sharing(text: str) -> None:
    lines = text.splitlines()
    assert any(
        line.endswith("twin-b   joins twin-a on its device; nothing is stopped") for line in lines
    ), text
    heads = [line.split() for line in lines if line.startswith("JOB")]
    assert heads == [["JOB", "ALONE", "TOGETHER", "KEEPS"]]
    assert lines[-1].startswith("Together they get ")


@pytest.mark.parametrize(
    ("beside", "text"),
    [
        (["1"], "twin-b   joins twin-a on its device; nothing is stopped"),
        ([], "twin-b   starts, and is watched while it is alone"),
    ],
)
def test_a_start_is_said_to_join_only_the_jobs_that_hold_its_device(
    beside: list[str], text: str
) -> None:
    start = EventView(id=1, at=0.0, kind="Start", job="2", text="", body={"beside": beside})
    assert told(start, {"1": "twin-a", "2": "twin-b"}) == text


def test_a_machine_on_which_sharing_does_not_pay_is_no_failure_and_anything_else_is() -> None:
    assert unmeasured("", shared=False).meant
    assert not unmeasured("not yet: train.py has not been measured", shared=False).meant
    assert not unmeasured("", shared=True).meant


def test_speeds_are_compared_once_both_have_trained_together_for_long_enough() -> None:
    """1. The first does 10 steps a second alone for 20 s. 2. Then both do 8."""
    steps = Steps()
    steps.started_at = {"a": 0.0, "b": 20.0}
    steps.points["a"] = [Point(float(at), 10.0 * at) for at in range(1, 21)]
    steps.points["b"] = []
    assert compared(steps, "a", "b") is None
    for at in range(21, 21 + int(SETTLES_S) + int(TOGETHER_S)):
        steps.points["a"].append(Point(float(at), 200.0 + 8.0 * (at - 20)))
        steps.points["b"].append(Point(float(at), 8.0 * (at - 20)))
    assert compared(steps, "a", "b") is None, "a moment is missing"
    steps.points["a"].append(Point(40.0, 360.0))
    steps.points["b"].append(Point(40.0, 160.0))
    found = compared(steps, "a", "b")
    assert found is not None
    assert found.alone == pytest.approx(10.0)
    assert found.together == pytest.approx({"a": 8.0, "b": 8.0})

"""An elastic job under a real daemon: the policy resizes it while it trains."""

import json
import os
import signal
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.control.daemons import Daemon, daemon
from tests.shared import THOROUGH, thorough
from tests.train.harness import printed
from tests.waiting import until
from treadle.wire.jobs import JobRequest, State

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

SCRIPT = str(Path(__file__).with_name("elastic_job.py"))
EPOCHS = 100  # of 4 steps, which take minutes until it is told to be fast
STEADY = "+live?restart_s=0.05"
POLICY = "afs" + STEADY


def rows(folder: Path) -> list[dict[str, Any]]:
    path = folder / "rows.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


@cache
def undisturbed() -> list[float]:
    """The losses of the same script alone, step by step."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fast").touch()
        printed(Path(SCRIPT), str(EPOCHS), workdir=folder)
        return [row["loss"] for row in rows(folder)]


def elastic(served: Daemon, folder: Path) -> str:
    request = JobRequest(
        command=(sys.executable, SCRIPT, str(EPOCHS)),
        devices="1..4",
        resumable=True,
        workdir=str(folder),
        name="elastic",
    )
    return served.client.submit(request).jobs[0]


def rigid(served: Daemon, devices: str) -> str:
    command = ("sleep", "1000")
    return served.client.submit(JobRequest(command=command, devices=devices)).jobs[0]


def stores(folder: Path) -> list[int]:
    """The processes of a job in that folder that serve the store by which its members meet."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"treadle.train.meeting" in words and (entry / "cwd").readlink() == folder:
                found.append(int(entry.name))
    return found


def check_learning(found: list[dict[str, Any]], expected: list[float]) -> None:
    """Every step once, every sample once in each epoch, and the losses of the undisturbed run."""
    steps: dict[int, list[dict[str, Any]]] = {}
    for row in found:
        steps.setdefault(row["step"], []).append(row)
    assert sorted(steps) == list(range(1, len(expected) + 1))
    for step, members in steps.items():
        assert sorted(row["rank"] for row in members) == list(range(members[0]["size"])), step
        assert members[0]["loss"] == pytest.approx(expected[step - 1], rel=1e-4, abs=1e-5)
    for epoch in range(EPOCHS):
        seen = [
            s for step in range(4) for row in steps[4 * epoch + step + 1] for s in row["samples"]
        ]
        assert sorted(seen) == list(range(64))


@pytest.mark.parametrize("policy", ["weave-l", "afs", "aiturbo"] if THOROUGH else ["weave-l"])
def test_a_policy_resizes_a_job_without_a_restart(tmp_path: Path, policy: str) -> None:
    """1. It has all devices. 2. Another job comes: it shrinks. 3. That one goes: it grows.

    The store by which its members met is killed before that, and no member is.
    """
    expected = undisturbed()
    folder = tmp_path / "job"
    folder.mkdir()
    with daemon("--devices", "3", "--policy", policy + STEADY) as served:
        job = elastic(served, folder)
        until(lambda: rows(folder) and rows(folder)[-1]["size"] == 3)
        (store,) = stores(folder)
        os.kill(store, signal.SIGKILL)
        other = rigid(served, "1")
        until(lambda: rows(folder)[-1]["size"] < 3)
        served.reached(State.RUNNING, other)
        smaller = rows(folder)[-1]["size"]
        served.client.cancel(other)
        until(lambda: rows(folder)[-1]["size"] > smaller)
        (folder / "fast").touch()
        until(lambda: served.view(job).state.ended)
        view = served.view(job)
        said = [event.text for event in served.client.events_last(limit=1000).events]
    assert (view.state, view.attempts) == (State.SUCCEEDED, 1), said
    check_learning(rows(folder), expected)
    assert any("without a restart, stall" in text for text in said), said
    assert stores(folder) == []


@thorough
def test_a_killed_daemon_finds_the_change_done(tmp_path: Path) -> None:
    expected = undisturbed()
    folder = tmp_path / "job"
    folder.mkdir()
    with daemon("--devices", "4", "--policy", POLICY) as served:
        other = rigid(served, "2")
        served.reached(State.RUNNING, other)
        job = elastic(served, folder)
        until(lambda: rows(folder))
        served.client.cancel(other)
        # The order to grow is out, and its newcomers import torch.
        status = served.state
        until(lambda: list(status.rglob("target.json")))
        served.kill()
        served.start()
        until(lambda: rows(folder)[-1]["size"] == 4)
        until(lambda: served.view(job).state is State.RUNNING)
        (folder / "fast").touch()
        until(lambda: served.view(job).state.ended)
        view = served.view(job)
        said = [event.text for event in served.client.events_last(limit=1000).events]
    assert (view.state, view.attempts) == (State.SUCCEEDED, 1), said
    check_learning(rows(folder), expected)


@thorough
def test_a_killed_rank_is_replaced(tmp_path: Path) -> None:
    expected = undisturbed()
    folder = tmp_path / "job"
    folder.mkdir()
    with daemon("--devices", "2", "--policy", POLICY) as served:
        job = elastic(served, folder)
        until(lambda: rows(folder) and rows(folder)[-1]["size"] == 2)
        victim = next(row["pid"] for row in reversed(rows(folder)) if row["rank"] == 1)
        os.kill(victim, signal.SIGKILL)
        until(lambda: rows(folder)[-1]["size"] == 1)
        until(lambda: rows(folder)[-1]["size"] == 2)
        (folder / "fast").touch()
        until(lambda: served.view(job).state.ended)
        view = served.view(job)
        said = [event.text for event in served.client.events_last(limit=1000).events]
    assert (view.state, view.attempts) == (State.SUCCEEDED, 1), said
    found = rows(folder)
    losses = {row["step"]: row["loss"] for row in found}
    assert [losses[step + 1] for step in range(len(expected))] == pytest.approx(
        expected, rel=1e-4, abs=1e-5
    )

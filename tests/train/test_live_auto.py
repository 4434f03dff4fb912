"""`treadle submit --elastic auto` under a real daemon: a script that knows nothing of Treadle."""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.control.daemons import Daemon, daemon
from tests.shared import thorough
from tests.train.harness import printed as alone
from tests.train.test_live_resizes import POLICY, rigid
from tests.waiting import until
from treadle.wire.jobs import JobRequest, State

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

SCRIPT = str(Path(__file__).with_name("unmodified") / "live.py")
EPOCHS = 40  # of 4 steps


def _rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def _printed(served: Daemon) -> list[list[dict[str, Any]]]:
    """What each process of the job printed."""
    folders = list(served.state.rglob("members.json"))
    paths = [path for folder in folders for path in sorted(folder.parent.glob("*.log"))]
    return [_rows(path.read_text()) for path in paths]


@thorough
def test_an_unmodified_script_is_resized_while_it_trains(tmp_path: Path) -> None:
    """1. It has all devices. 2. Another job comes: it shrinks. 3. That one goes: it grows."""
    folder = tmp_path / "job"
    folder.mkdir()
    with daemon("--devices", "3", "--policy", POLICY) as served:
        request = JobRequest(
            command=(sys.executable, SCRIPT, str(EPOCHS)),
            devices="1..3",
            elastic="auto",
            workdir=str(folder),
        )
        job = served.client.submit(request).jobs[0]
        until(lambda: sum(map(bool, _printed(served))) == 3)
        other = rigid(served, "1")
        until(lambda: len(served.view(job).devices) < 3)
        served.reached(State.RUNNING, other)
        served.client.cancel(other)
        # The newcomer imports torch meanwhile.
        until(lambda: sum(map(bool, _printed(served))) == 4)
        (folder / "fast").touch()
        until(lambda: served.view(job).state.ended)
        view = served.view(job)
        said = [event.text for event in served.client.events_last(limit=1000).events]
        printed = _printed(served)
    assert (view.state, view.attempts, view.resumable) == (State.SUCCEEDED, 1, True), said
    assert any("without a restart, stall" in text for text in said), said
    _check(printed, _rows(alone(Path(SCRIPT), str(EPOCHS), workdir=folder)))


def _check(
    printed: list[list[dict[str, Any]]], plain: list[dict[str, Any]], *, torn: int = 0
) -> None:
    """The shares of each batch are those of the plain run, and so is the loss.

    torn: steps in which a member was killed: the others print their shares again.
    """
    taken: dict[tuple[int, int], list[int]] = defaultdict(list)
    loss: dict[tuple[int, int], float] = defaultdict(float)
    members: dict[tuple[int, int], int] = defaultdict(int)
    for rows in printed:
        for row in rows:
            step = row["epoch"], row["i"]
            taken[step] += row["samples"]
            loss[step] += row["loss"] * len(row["samples"]) / 16
            members[step] += 1
    whole = [
        row for row in plain if sorted(taken[row["epoch"], row["i"]]) == sorted(row["samples"])
    ]
    assert len(whole) >= len(plain) - torn
    assert {1, 2, 3} >= {members[row["epoch"], row["i"]] for row in whole} >= {2, 3}
    for row in whole:
        step = row["epoch"], row["i"]
        assert loss[step] == pytest.approx(row["loss"], rel=1e-4, abs=1e-5)

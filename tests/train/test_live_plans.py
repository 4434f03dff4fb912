"""Rubick chooses the execution plan of a job that trains, under a real daemon."""

import sys
from pathlib import Path

import pytest

from tests.control.daemons import daemon
from tests.shared import thorough
from tests.train.test_live_resizes import EPOCHS, SCRIPT, rigid, rows, undisturbed
from tests.waiting import until
from treadle.wire.jobs import JobRequest, State

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

POLICY = "rubick?gate=0&restart_s=0+live?restart_s=0.05"


@thorough
def test_rubick_changes_the_plan_of_a_job_without_a_restart(tmp_path: Path) -> None:
    """1. Others leave it one device. It starts data parallel and says which plans it can take on.

    2. A second one becomes free: its optimizer is sharded there, which is the faster plan for what
    it says it is. 3. All four are free. Its state moves along, and it learns the same.
    """
    expected = undisturbed()
    folder = tmp_path / "job"
    folder.mkdir()
    request = JobRequest(
        command=(sys.executable, SCRIPT, str(EPOCHS)),
        devices="1..4",
        resumable=True,
        workdir=str(folder),
        name="planned",
        model="bert",
        guaranteed=False,
    )
    with daemon("--devices", "4", "--policy", POLICY) as served:
        pair, single = rigid(served, "2"), rigid(served, "1")
        served.reached(State.RUNNING, pair)
        served.reached(State.RUNNING, single)
        job = served.client.submit(request).jobs[0]
        until(lambda: rows(folder))
        served.client.cancel(single)
        until(lambda: rows(folder)[-1]["size"] == 2)
        served.client.cancel(pair)
        until(lambda: rows(folder)[-1]["size"] == 4)
        (folder / "fast").touch()
        until(lambda: served.view(job).state.ended)
        view = served.view(job)
        said = [event.text for event in served.client.events_last(limit=1000).events]
    assert (view.state, view.attempts) == (State.SUCCEEDED, 1), "\n".join(said)
    found = rows(folder)
    losses = {row["step"]: row["loss"] for row in found}
    assert [losses[step + 1] for step in range(len(expected))] == pytest.approx(
        expected, rel=1e-4, abs=1e-5
    )
    plans = list(dict.fromkeys((row["size"], row["plan"]) for row in found))
    assert plans[0] == (1, ""), said
    assert plans[-2:] == [(2, "d2 zero-2"), (4, "d4 zero-2")], said
    for epoch in range(EPOCHS):
        steps = range(4 * epoch + 1, 4 * epoch + 5)
        taken = {(row["step"], row["replica"]): row["samples"] for row in found}
        seen = [s for (step, _), some in taken.items() if step in steps for s in some]
        assert sorted(seen) == list(range(64)), epoch

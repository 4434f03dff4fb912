"""Execution plans that change while a run trains: real processes, the real session and protocol."""

import signal
from functools import cache

import pytest

from tests.shared import thorough
from tests.train.checks import check_same, check_samples, check_steps, losses, steps_of
from tests.train.harness import Event, Result, Scenario, run
from tests.train.scripts import SAMPLES

BATCH, EPOCHS = 8, 12
ENDLESS = {"epochs": 100_000, "batch": BATCH}
STOP = Event(0, stop=True)


@cache
def _alone(kind: str, epochs: int = EPOCHS) -> dict[int, float]:
    """The losses of an undisturbed run of one member."""
    options = {"kind": kind, "epochs": epochs, "batch": BATCH}
    return losses(run(Scenario("loop", ("a",), [], options)), SAMPLES, BATCH)


def _life(result: Result) -> list[tuple[int, str]]:
    """Members and plan after each change."""
    return [(len(change["group"]), change["plan"]) for change in result.changes]


@pytest.mark.parametrize(
    ("kind", "cut"), [pytest.param("transformer", "t2", marks=thorough), ("cnn", "p2")]
)
def test_sizes_places_and_plans_change_nothing_of_what_is_learned(kind: str, cut: str) -> None:
    """1 -> 4 -> 2 -> 3 members, a move, then plans: sharded, split, recomputed, off-loaded."""
    events = [
        Event(4, ("a", "b", "c", "d")),
        Event(8, ("b", "c")),
        Event(12, ("b", "c", "e")),
        Event(16, ("x", "y", "e"), "zero-3"),
        Event(20, ("x", "y", "e", "f"), cut),
        Event(24, ("f", "g"), "recompute x2"),
        Event(28, ("f",), "d1 zero-2 offload"),
        Event(32, ("f", "g")),
        STOP,
    ]
    result = run(Scenario("loop", ("a",), events, {"kind": kind, **ENDLESS}))
    assert _life(result) == [
        (1, ""),
        (4, ""),
        (2, ""),
        (3, ""),
        (3, "zero-3"),
        (4, cut),
        (2, "recompute x2"),
        (1, "d1 zero-2 offload"),
        (2, ""),
    ], result.errors
    assert set(result.codes.values()) <= {0, 143}, result.errors
    check_samples(result, SAMPLES, stopped=True)
    check_steps(result, SAMPLES, BATCH)
    ours, theirs = losses(result, SAMPLES, BATCH), _alone(kind, 50)
    check_same(ours, theirs, at_least=0.0)
    compared = {rows[0]["plan"] for step, rows in steps_of(result).items() if step in theirs}
    assert compared == {plan for _, plan in _life(result)}, "the undisturbed run is too short"


def test_a_loss_under_a_split_plan_goes_on_from_the_checkpoint() -> None:
    options = {"kind": "transformer", "epochs": 5, "batch": BATCH, "save_at": 12}
    events = [Event(20, kill=1)]
    result = run(Scenario("loop", ("a", "b"), events, options, plan="zero-3"))
    assert result.ended["finished"], (result.facts, result.errors)
    assert [change["why"] for change in result.changes] == ["start", "restart"], result.errors
    assert "a part of the state" in result.errors
    assert result.changes[1]["step"] == 12
    assert sorted(result.codes.values()) == [-signal.SIGKILL, 0, 0, 143]
    ours, theirs = losses(result, SAMPLES, BATCH), _alone("transformer")
    assert len(ours) == 5 * 8
    check_same(ours, {step: theirs[step] for step in ours})


def test_a_state_that_cannot_be_saved_refuses_the_change_and_training_goes_on() -> None:
    """The limit of the size of files stands for a full disk."""
    options = {"kind": "transformer", **ENDLESS, "file_bytes": 6000}
    events = [Event(5, ("a", "b"), "zero-3"), STOP]
    result = run(Scenario("loop", ("a", "b"), events, options))
    refused = [fact["why"] for fact in result.facts if fact["kind"] == "Refused"]
    assert len(refused) == 1, (result.facts, result.errors)
    assert refused[0].startswith("the state could not be saved: ")
    assert set(result.codes.values()) == {143}, result.errors
    assert _life(result) == [(2, "")]
    check_steps(result, SAMPLES, BATCH)
    check_same(losses(result, SAMPLES, BATCH), _alone("transformer"), at_least=0.0)


def test_a_stop_under_one_plan_resumes_under_another(tmp_path) -> None:
    """A checkpoint in parts is loaded by one rank, and that one's by a split model."""
    options = {"kind": "transformer", "epochs": EPOCHS, "batch": BATCH}
    where = str(tmp_path)
    first = run(
        Scenario("loop", ("a", "b"), [Event(20, stop=True)], options, folder=where, plan="t2")
    )
    assert set(first.codes.values()) == {143}, first.errors
    second = run(Scenario("loop", ("a",), [Event(50, stop=True)], options, folder=where))
    third = run(Scenario("loop", ("a", "b"), [], options, folder=where, plan="zero-3"))
    assert third.ended["finished"], third.errors
    found: dict[int, float] = {}
    for result in (first, second, third):
        steps = losses(result, SAMPLES, BATCH)
        assert not steps.keys() & found.keys(), "a step was done again"
        found |= steps
    assert len(found) == EPOCHS * 8
    check_same(found, {step: _alone("transformer")[step] for step in found}, at_least=1.0)

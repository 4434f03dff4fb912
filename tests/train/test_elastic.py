"""Training with members that come, go, move and die, as real processes with gloo."""

import re
import signal
from functools import cache

import pytest

from tests.shared import THOROUGH, thorough
from tests.train.checks import check_same, check_samples, check_steps, losses
from tests.train.harness import Event, Result, Scenario, run
from tests.train.kills import reference, scenario, trial
from tests.train.scripts import SAMPLES

BATCH = 8
LONG = {"epochs": 20, "batch": BATCH}
ENDLESS = {"epochs": 100_000, "batch": BATCH}
# Whatever the load of the machine is: not before the last order was carried out or refused.
STOP = Event(0, stop=True)


def _sizes(result: Result) -> list[int]:
    """How many members each change led to."""
    return [len(change["group"]) for change in result.changes]


@cache
def _alone(kind: str) -> dict[int, float]:
    """The losses of an undisturbed run of one member."""
    return losses(run(Scenario("loop", ("a",), [], {"kind": kind, **LONG})), SAMPLES, BATCH)


@pytest.mark.parametrize("kind", [pytest.param("transformer", marks=thorough), "cnn"])
def test_resizes_and_a_migration_change_nothing_of_what_is_learned(kind: str) -> None:
    """1 -> 4 -> 2 -> 3 members, then all of them move to other devices."""
    events = [
        Event(5, ("a", "b", "c", "d")),
        Event(30, ("b", "c")),
        Event(50, ("b", "c", "e")),
        Event(70, ("x", "y", "z")),
        STOP,
    ]
    result = run(Scenario("loop", ("a",), events, {"kind": kind, **ENDLESS}))
    # A move of all goes through a group with one of the old members, which has the state.
    assert _sizes(result) == [1, 4, 2, 3, 4, 3], result.errors
    check_samples(result, SAMPLES, stopped=True)
    check_steps(result, SAMPLES, BATCH)
    # However many steps that were: those of an undisturbed run are among them, or it is longer.
    check_same(losses(result, SAMPLES, BATCH), _alone(kind), at_least=0.3)


@pytest.mark.parametrize("batch", [7, 60, 61])
def test_each_sample_comes_once_with_batches_that_do_not_divide(batch: int) -> None:
    """Also a batch of 4 samples for 5 ranks, and one that is all of the data."""
    options = {"kind": "cnn", "epochs": 12, "batch": batch}
    events = [Event(3, ("a", "b", "c", "d", "e"))]
    result = run(Scenario("loop", ("a", "b"), events, options))
    assert result.ended["finished"], result.errors
    check_samples(result, SAMPLES)
    alone = losses(run(Scenario("loop", ("a",), [], options)), SAMPLES, batch)
    check_same(losses(result, SAMPLES, batch), alone, at_least=1.0)


def test_members_that_are_killed_cost_no_step_and_none_is_applied_twice() -> None:
    seeds = (0, 5, 115) if THOROUGH else (0,)
    undisturbed = {kind: reference(kind) for kind in {scenario(s).options["kind"] for s in seeds}}
    for seed in seeds:
        codes = trial(seed, undisturbed).codes
        assert sum(code == -signal.SIGKILL for code in codes.values()) >= 1


def test_a_newer_order_cancels_one_in_flight_and_leaves_nothing_behind() -> None:
    options = {"kind": "cnn", **LONG, "never_ready": "d"}
    events = [Event(3, ("a", "d")), Event(5, ("a",), settled=False)]
    result = run(Scenario("loop", ("a",), events, options))
    assert [(c["order"], c["group"]) for c in result.changes] == [(1, ["m0"]), (3, ["m0"])]
    assert result.codes == {"m0": 0, "m1": -signal.SIGTERM}
    check_same(losses(result, SAMPLES, BATCH), _alone("cnn"), at_least=1.0)


def test_a_member_that_hangs_costs_the_stated_timeout_and_not_the_training() -> None:
    """SIGSTOP: collectives wait for it for 3 s, and the others for its arrival as long again."""
    options = {"kind": "cnn", **LONG, "timeout_s": 3.0}
    events = [Event(20, kill=1, number=signal.SIGSTOP)]
    result = run(Scenario("loop", ("a", "b", "c"), events, options))
    assert result.ended["finished"], result.errors
    assert _sizes(result)[-1] == 2
    check_same(losses(result, SAMPLES, BATCH), _alone("cnn"))


def test_a_stop_writes_one_checkpoint_from_which_another_size_goes_on(tmp_path) -> None:
    options = {"kind": "transformer", **LONG}
    first = run(
        Scenario("loop", ("a", "b", "c"), [Event(20, stop=True)], options, folder=str(tmp_path))
    )
    assert set(first.codes.values()) == {143}, first.errors
    assert not first.ended["finished"]
    second = run(Scenario("loop", ("a", "b"), [], options, folder=str(tmp_path)))
    assert second.ended["finished"], second.errors
    steps = {**losses(first, SAMPLES, BATCH), **losses(second, SAMPLES, BATCH)}
    overlap = losses(first, SAMPLES, BATCH).keys() & losses(second, SAMPLES, BATCH).keys()
    assert not overlap, "a step was done again"
    check_same(steps, _alone("transformer"), at_least=1.0)


def test_sigterm_to_one_member_stops_all_at_the_same_step() -> None:
    options = {"kind": "cnn", **LONG}
    events = [Event(20, kill=1, number=signal.SIGTERM)]
    result = run(Scenario("loop", ("a", "b", "c"), events, options))
    assert set(result.codes.values()) == {143}, result.errors
    newest = {row["pid"]: row["step"] for row in result.rows if row.get("applied")}
    assert len(set(newest.values())) == 1


def test_members_whose_coordinator_is_gone_train_on_to_the_end() -> None:
    options = {"kind": "cnn", **LONG}
    result = run(Scenario("loop", ("a", "b"), [Event(20, hang_up=True)], options))
    assert result.codes == {"m0": 0, "m1": 0}, result.errors
    check_samples(result, SAMPLES)
    check_same(losses(result, SAMPLES, BATCH), _alone("cnn"), at_least=1.0)


def test_a_full_disk_costs_checkpoints_and_not_the_training() -> None:
    options = {"kind": "cnn", "epochs": 2, "every_s": 0.0, "file_bytes": 4000}
    result = run(Scenario("loop", ("a", "b"), [], options))
    assert result.ended["finished"]
    assert re.search(r"no checkpoint at step \d+: ", result.errors)
    check_samples(result, SAMPLES)


def test_a_member_whose_script_fails_is_a_loss_like_any_other() -> None:
    """The others need not wait for the timeout of an hour."""
    options = {"kind": "cnn", **LONG, "fails": "b", "timeout_s": 3600.0}
    result = run(Scenario("loop", ("a", "b", "c"), [], options))
    assert "an error of the user's own" in result.errors
    assert result.codes == {"m0": 0, "m1": 70, "m2": 0}
    assert result.ended["finished"]
    check_same(losses(result, SAMPLES, BATCH), _alone("cnn"))


def test_layers_that_thaw_in_the_middle_train_on_all_ranks_alike() -> None:
    """Also on a newcomer, which has not run the line that thawed them."""
    options = {"kind": "transformer", "epochs": 8, "batch": BATCH, "thaws": 2}
    events = [Event(32, ("a", "b", "c"))]
    result = run(Scenario("loop", ("a", "b"), events, options))
    assert result.ended["finished"], result.errors
    assert _sizes(result) == [2, 3], result.errors
    finals = [row["final"] for row in result.rows if "final" in row]
    assert len(finals) == 3
    assert finals == pytest.approx([finals[0]] * 3, abs=1e-9), "the ranks differ"
    alone = losses(run(Scenario("loop", ("a",), [], options)), SAMPLES, BATCH)
    check_same(losses(result, SAMPLES, BATCH), alone, at_least=1.0)

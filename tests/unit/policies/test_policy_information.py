"""Which policies use the lengths of jobs: what the table says is tried."""

import time

import pytest

from treadle.core.errors import InvalidInputError
from treadle.policies.registry import is_blind, names, offered
from treadle.policies.simple.orders import fifo
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.clusters import cluster
from treadle.traces.load import load


def ends(policy: str, length_error: float) -> list[float | None]:
    """When each job ends, if policies see lengths that are off by this spread."""
    on = cluster("2x4")
    source = load("generate:poisson?jobs=40&seed=3&load=1.5", cluster=on)
    chosen = Settings(policy=policy, restart_cost="30", elastic=0.05, length_error=length_error)
    run = prepare(source, on, chosen, stopwatch=time.process_time)
    run.finish()
    return [history.ended_at for history in run.recorder.histories.values()]


@pytest.mark.parametrize("policy", [name for name in names() if is_blind(name)])
def test_a_blind_policy_decides_the_same_whatever_the_lengths(policy: str) -> None:
    assert ends(policy, 0.0) == ends(policy, 1.0)


@pytest.mark.parametrize("policy", ["srtf", "afs", "muri-s", "themis", "optimus"])
def test_a_policy_that_uses_lengths_decides_otherwise_if_they_are_wrong(policy: str) -> None:
    assert not is_blind(policy)
    assert ends(policy, 0.0) != ends(policy, 1.0)


def test_parameters_and_wrappers_leave_a_policy_as_it_is() -> None:
    assert is_blind("tiresias?promote=8+defrag")
    assert not is_blind("srtf+defrag")


def test_an_offered_policy_has_its_name_for_a_while() -> None:
    with offered("mine", fifo):
        assert "mine" in names()
        assert not is_blind("mine")
    assert "mine" not in names()
    with (
        pytest.raises(InvalidInputError, match="there is a policy fifo already"),
        offered("fifo", fifo),
    ):
        pass

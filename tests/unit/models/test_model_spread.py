"""Speed on more nodes or racks than a job needs is learned as speed by size is."""

from dataclasses import replace

import pytest

from tests.unit.stories import Told
from treadle.control.loop.live_policy import belief_on
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.events import JobStarted, JobSubmitted
from treadle.core.job import JobSpec, Profile
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule
from treadle.models.learning.belief import Learned, learning
from treadle.models.learning.kinds import by_model
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome
from treadle.models.learning.spread import DOUBT, NODES, RACKS, TIGHT, spread_of
from treadle.models.scaling import ScalingModel

CLUSTER = Cluster((Node("a", 2, rack="r1"), Node("b", 2, rack="r1"), Node("c", 2, rack="r2")))
SPEC = JobSpec("j", 10.0, sizes=(2,), profile=Profile(size=2, model="resnet"))
SPEEDS = {"one": 4.0, "two": 2.0}
ACROSS_RACKS = DOUBT.across_nodes * DOUBT.across_racks


def on(*names: str) -> Allocation:
    """A device of each, in order."""
    return Allocation(tuple(Device(name, names[:at].count(name)) for at, name in enumerate(names)))


def seen(knowledge: Knowledge, step_s: float, spread: str = TIGHT) -> None:
    knowledge.observe(by_model(SPEC), Outcome(2, 0.0, step_s=step_s, spread=spread))


@pytest.mark.parametrize(
    ("nodes", "size", "spread"),
    [
        (("a",), 2, TIGHT),
        (("a", "b"), 4, TIGHT),
        (("a", "b"), 2, NODES),
        (("a", "c"), 2, RACKS),
        (("a", "c"), 4, RACKS),
    ],
)
def test_a_placement_is_tight_or_on_more_nodes_or_racks_than_it_needs(
    nodes: tuple[str, ...], size: int, spread: str
) -> None:
    assert spread_of(nodes, size, CLUSTER) == spread


def test_what_was_not_seen_is_doubted_and_measurements_push_the_doubt_back() -> None:
    knowledge = Knowledge()
    seen(knowledge, 1.0)
    before = knowledge.needs.apart(by_model(SPEC))
    assert (before.nodes, before.racks) == (0.0, 0.0)
    assert before.factor(NODES) == DOUBT.across_nodes
    assert before.factor(RACKS) == ACROSS_RACKS
    seen(knowledge, 2.0, NODES)  # half as fast
    after = knowledge.needs.apart(by_model(SPEC))
    assert after.nodes == pytest.approx((DOUBT.across_nodes * 0.5) ** 0.5)
    assert after.racks == 0.0


def test_a_slow_placement_does_not_spoil_the_speed_of_a_tight_one() -> None:
    knowledge = Knowledge()
    seen(knowledge, 1.0)
    for _ in range(20):
        seen(knowledge, 9.0, RACKS)
    pace = knowledge.pace(by_model(SPEC))
    assert pace is not None
    assert pace.curve.seconds(2) == 1.0


def test_a_kind_that_was_seen_only_apart_is_expected_to_be_faster_in_one_place() -> None:
    knowledge = Knowledge()
    seen(knowledge, 1.0, NODES)
    pace = knowledge.pace(by_model(SPEC))
    assert pace is not None
    assert pace.curve.seconds(2) == pytest.approx(DOUBT.across_nodes)


def test_the_simulator_learns_it_from_what_runs() -> None:
    """1. A job runs on one node. 2. Its like runs over racks, at half the speed."""
    places = {"one": on("a", "a"), "two": on("b", "c")}
    scheduler = Scheduler(Told(Schedule(places)), CLUSTER)
    scheduler.step([JobSubmitted(replace(SPEC, id=name)) for name in places], 0.0)
    belief = Learned(ScalingModel.on(CLUSTER))
    actions = {name: scheduler.jobs[name].action for name in places}
    facts = [JobStarted(name, actions[name], 0.0, speed) for name, speed in SPEEDS.items()]
    scheduler.step(facts, 1.0)
    learning(belief)(1.0, facts, [], scheduler)
    assert belief.iterations_per_s(SPEC, on("a", "a"), ()) == pytest.approx(4.0)
    expected = 4.0 * (ACROSS_RACKS * 0.5) ** 0.5
    assert belief.iterations_per_s(SPEC, on("a", "c"), ()) == pytest.approx(expected)
    assert belief.iterations_per_s(SPEC, on("a", "b"), ()) == pytest.approx(4.0 * 0.85)


def test_the_live_belief_uses_what_the_profile_has_and_doubts_the_rest() -> None:
    belief = belief_on(CLUSTER)
    tight = belief.iterations_per_s(SPEC, on("a", "a"), ())
    assert belief.iterations_per_s(SPEC, on("a", "b"), ()) == pytest.approx(tight * 0.85)
    assert belief.iterations_per_s(SPEC, on("a", "c"), ()) == pytest.approx(tight * ACROSS_RACKS)
    known = replace(SPEC, profile=replace(SPEC.profile, across_nodes=0.7, across_racks=0.3))
    assert belief.iterations_per_s(known, on("a", "b"), ()) == pytest.approx(tight * 0.7)
    assert belief.iterations_per_s(known, on("a", "c"), ()) == pytest.approx(tight * 0.3)

"""Speeds on unlike devices are told apart: a factor for each type that was seen."""

from dataclasses import replace

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.job import JobSpec
from treadle.models.learning.belief import Learned
from treadle.models.learning.kinds import by_command
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome
from treadle.models.learning.spread import DOUBT, NODES, TIGHT, spread_of
from treadle.models.scaling import ScalingModel
from treadle.testing.builders import job

A100, H200 = "NVIDIA A100", "NVIDIA H200"
CLUSTER = Cluster((Node("a", 4, device_type=A100), Node("h", 4, device_type=H200)))
KINDS = by_command("ann", "", ("python", "train.py"))


def paced(size: int, step_s: float, device_type: str, *, spread: str = "") -> Outcome:
    return Outcome(size, 0.0, step_s=step_s, device_type=device_type, spread=spread)


def seen(*outcomes: Outcome) -> Knowledge:
    knowledge = Knowledge()
    for outcome in outcomes:
        knowledge.observe(KINDS, outcome)
    return knowledge


def test_the_speed_on_another_type_is_a_factor_and_leaves_the_curve_alone() -> None:
    knowledge = seen(paced(1, 2.0, A100), paced(2, 1.0, A100), paced(1, 0.5, H200))
    assert dict(knowledge.needs.by_type(KINDS)) == pytest.approx({A100: 1.0, H200: 4.0})
    pace = knowledge.pace(KINDS)
    assert pace is not None
    assert pace.points == ((1, 2.0), (2, 1.0))


def test_a_placement_apart_on_another_type_says_nothing() -> None:
    """Which of the two made it slower is not known."""
    known = seen(paced(2, 1.0, A100), paced(2, 3.0, H200, spread="nodes"))
    assert known.needs.by_type(KINDS) == ()
    assert known.needs.apart(KINDS).nodes == 0.0


def test_lengths_are_counted_as_at_home() -> None:
    whole = Outcome(1, 100.0, whole=True, step_s=0.5, device_type=H200)
    knowledge = seen(paced(1, 2.0, A100), paced(1, 0.5, H200), whole)
    assert knowledge.expect(KINDS, 1).length.quantile(0.5) == pytest.approx(400.0)


def on(node: str) -> Allocation:
    return Allocation((Device(node, 0),))


def typed(*words: str) -> JobSpec:
    spec = job("j")
    profile = replace(spec.profile, by_type=((A100, 1.0), (H200, 4.0)))
    return replace(spec, profile=profile, device_types=words)


def test_the_live_model_multiplies_by_the_factor_of_the_devices() -> None:
    model = ScalingModel.on(CLUSTER)
    assert model.iterations_per_s(typed(), on("h"), ()) == 4.0 * model.alone(typed(), 1)
    assert model.iterations_per_s(typed(), on("a"), ()) == model.alone(typed(), 1)
    both = Allocation((Device("a", 0), Device("h", 0)))
    ratio = model.iterations_per_s(typed(), both, ()) / model.alone(typed(), 2)
    assert ratio == 1.0, "the slowest"


def test_a_job_that_may_not_use_the_home_is_as_fast_as_on_its_type() -> None:
    model = ScalingModel.on(CLUSTER)
    assert model.alone(typed("h200"), 1) == 4.0 * model.alone(typed("gpu"), 1)
    assert model.iterations_per_s(typed("h200"), on("h"), ()) == model.alone(typed("h200"), 1)


def test_the_simulators_belief_learns_the_same() -> None:
    belief = Learned(ScalingModel())
    belief.cluster = CLUSTER
    spec = replace(job("j"), profile=replace(job("j").profile, model="bert"))
    belief.observe(spec, 1, 2.0, device_type=A100)
    belief.observe(spec, 1, 6.0, device_type=H200)
    assert belief.iterations_per_s(spec, on("a"), ()) == pytest.approx(2.0)
    assert belief.iterations_per_s(spec, on("h"), ()) == pytest.approx(6.0)


def test_how_many_nodes_a_job_needs_goes_by_the_nodes_of_its_type() -> None:
    """A large node of CPU slots does not make a gang on two nodes of GPUs one that is apart."""
    nodes = (Node("a", 4), Node("b", 4), Node("c", 64, device_type="cpu"))
    assert spread_of(("a", "b"), 8, Cluster(nodes)) == TIGHT
    assert spread_of(("a", "b"), 4, Cluster(nodes)) == NODES
    model = ScalingModel.on(Cluster(nodes), DOUBT)
    eight = Allocation(tuple(Device(name, number) for name in "ab" for number in range(4)))
    assert model.iterations_per_s(job("j"), eight, ()) == model.alone(job("j"), 8)

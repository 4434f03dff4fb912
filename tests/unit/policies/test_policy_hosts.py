"""Cores: for the job that gains most from them, never more than a node has, undone if in vain."""

from collections.abc import Iterable
from itertools import pairwise
from random import Random

import pytest

from tests.unit.policies.test_policy_rubick import OFFLOAD, OFFLOAD4, PLANNER, planned, story
from tests.unit.stories import Story
from treadle.core.actions import Change, Start
from treadle.core.allocation import Host
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobFinished, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.plan import Plan
from treadle.core.scheduler import Scheduler
from treadle.models.plans.memory import memory
from treadle.models.scaling import ScalingModel
from treadle.policies.rubick.curves import Curves
from treadle.policies.rubick.hosts import cores_of
from treadle.testing.builders import policy

# Under its user's plan the optimizer runs on the host.
HOSTED = planned("a", "llama7", 8, OFFLOAD)


def hosts(scheduler: Scheduler) -> dict[str, Host | None]:
    rows = scheduler.jobs.values()
    return {row.id: row.allocation.host for row in rows if row.allocation is not None}


def used(scheduler: Scheduler, node: Node) -> float:
    """Cores that jobs were given on a node."""
    return sum(
        host.cores * sum(device.node == node.name for device in row.allocation.devices)
        for row in scheduler.jobs.values()
        if row.allocation is not None and (host := row.allocation.host) is not None
    )


def synergy(*specs: JobSpec, node: Node | None = None) -> Scheduler:
    scheduler = Scheduler(
        policy("synergy", belief=ScalingModel()), Cluster((node or Node("n0", 8),))
    )
    scheduler.step(map(JobSubmitted, specs), 0.0)
    return scheduler


class TestCurves:
    def made(self, **options: bool) -> Curves:
        curves = Curves(ScalingModel(), **options)
        curves.on(Cluster.grid(8, 8))
        return curves

    def test_cores_count_where_the_optimizer_is_on_the_host(self):
        steps = self.made(plans=False).by_cores(HOSTED, (8,), 4.0)
        assert steps[0].cores == 4.0
        assert len(steps) > 2
        values = [step.speed.value for step in steps]
        assert all(later > 1.01 * earlier for earlier, later in pairwise(values))

    def test_and_nowhere_else(self):
        steps = self.made().by_cores(planned("a", "bert", 8, Plan(data=8)), (8,), 4.0)
        assert [step.cores for step in steps] == [4.0]

    def test_the_first_step_is_the_speed_that_devices_are_shared_out_by(self):
        made = self.made()
        for spec in (
            HOSTED,
            planned("b", "gpt2", 4, OFFLOAD4),
            planned("c", "t5", 2, Plan(data=2)),
        ):
            shape = (spec.asked,)
            assert made.by_cores(spec, shape, 4.0)[0].speed == made.speed(spec, shape)


class TestDealing:
    def test_a_job_alone_on_its_node_takes_what_the_node_has(self):
        scheduler = synergy(HOSTED)
        host = hosts(scheduler)["a"]
        assert host is not None
        assert 8 < host.cores <= 12
        facts = PLANNER.types["llama7"].facts
        assert host.memory_gib == memory(facts, OFFLOAD, 8).host_gib

    def test_a_node_says_how_many_cores_it_has(self):
        for cores, least, most in ((16, 2.0, 2.0), (32, 4.0, 4.0), (48, 5.0, 6.0)):
            host = hosts(synergy(HOSTED, node=Node("n0", 8, cores=cores)))["a"]
            assert host is not None
            assert least <= host.cores <= most

    def test_a_job_that_gains_more_from_a_core_gets_more_of_them(self):
        one, other = planned("a", "llama7", 4, OFFLOAD4), planned("b", "bert", 4, OFFLOAD4)
        scheduler = synergy(one, other)
        curves = Curves(ScalingModel(), plans=False, resources=False)
        curves.on(Cluster.grid(1, 8))
        found = hosts(scheduler)

        def marginal(spec: JobSpec) -> float:
            host = found[spec.id]
            assert host is not None
            steps = curves.by_cores(spec, (4,), 4.0)
            at = next(i for i, step in enumerate(steps) if step.cores == host.cores)
            if at + 1 == len(steps):
                return 0.0
            gain = steps[at + 1].speed.value - steps[at].speed.value
            return gain / (steps[at + 1].cores - steps[at].cores)

        def last(spec: JobSpec) -> float:
            host = found[spec.id]
            assert host is not None
            steps = curves.by_cores(spec, (4,), 4.0)
            at = next(i for i, step in enumerate(steps) if step.cores == host.cores)
            gain = steps[at].speed.value - steps[at - 1].speed.value
            return gain / (steps[at].cores - steps[at - 1].cores) if at else float("inf")

        assert marginal(one) <= last(other) + 1e-9
        assert marginal(other) <= last(one) + 1e-9

    def test_a_running_job_gets_more_once_others_leave_and_it_pays(self):
        told = Story(policy("synergy", belief=ScalingModel()), "1x8")
        told.tell(0.0, *map(JobSubmitted, (planned("a", "llama7", 4, OFFLOAD4), _twin("b"))))
        before = hosts(told.scheduler)["a"]
        told.runs(0.0, "a", "b")
        orders = told.tell(60.0, JobFinished("b", told.scheduler.jobs["b"].action))
        after = hosts(told.scheduler)["a"]
        assert before is not None
        assert after is not None
        assert [type(order) for order in orders] == [Change]
        assert after.cores > before.cores

    def test_and_not_if_it_is_about_to_end(self):
        told = Story(policy("synergy", belief=ScalingModel()), "1x8")
        short = planned("a", "llama7", 4, OFFLOAD4, steps=100.0)
        told.tell(0.0, JobSubmitted(short), JobSubmitted(_twin("b")))
        told.runs(0.0, "a", "b")
        assert told.tell(60.0, JobFinished("b", told.scheduler.jobs["b"].action)) == []

    def test_a_newcomer_takes_cores_from_jobs_that_gain_less_from_them(self):
        told = Story(policy("synergy", belief=ScalingModel()), "1x8")
        told.tell(0.0, JobSubmitted(planned("a", "llama7", 4, OFFLOAD4)))
        alone = hosts(told.scheduler)["a"]
        told.runs(0.0, "a")
        told.tell(1.0, JobSubmitted(_twin("b")))
        found = hosts(told.scheduler)
        assert alone is not None
        assert found["a"] is not None
        assert found["b"] is not None
        assert found["b"].cores > 4.0
        assert found["a"].cores <= alone.cores


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["rubick?gate=0", "synergy"])
def test_no_node_ever_gives_more_cores_than_it_has(name, seed):
    draw = Random(seed)
    nodes = tuple(Node(f"n{n}", 8, cores=draw.choice((0, 24, 64, 96))) for n in range(3))
    told = story(name)
    told.scheduler = Scheduler(policy(name, belief=ScalingModel()), Cluster(nodes))
    for number in range(25):
        now = 100.0 * number
        running = [row for row in told.scheduler.jobs.values() if row.allocation is not None]
        if running and draw.random() < 0.4:
            ended = draw.choice(running)
            told.tell(now, JobFinished(ended.id, ended.action))
        spec = draw.choice(list(_drawn(number)))
        told.tell(now, JobSubmitted(spec))
        told.runs(now, *(row.id for row in told.scheduler.jobs.values() if row.allocation))
        for node in nodes:
            assert used(told.scheduler, node) <= cores_of(node) + 1e-6


def test_without_resources_cores_stay_as_they_were_asked_for():
    order = story("rubick-e").tell(0.0, JobSubmitted(HOSTED))[0]
    assert isinstance(order, Start)
    assert order.allocation.host is None


def _twin(identity: str) -> JobSpec:
    return planned(identity, "llama7", 4, OFFLOAD4)


def _drawn(number: int) -> Iterable[JobSpec]:
    for model, size in (("llama7", 8), ("gpt2", 4), ("bert", 2), ("t5", 4), ("vit", 1)):
        plan = Plan(data=size, shard="gradients", offload=True)
        yield planned(f"{model}-{number}", model, size, plan)

"""Philly makes only those tries that could succeed, and decides as if it had made them all."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.core.actions import Action
from treadle.core.cluster import Cluster
from treadle.core.events import Event
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.policies.simple.philly_tries import Memory, Rules, Wait
from treadle.policies.wrappers.wrapper import Wrapper
from treadle.sim.costs import Constant
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import job, policy
from treadle.testing.strategies import clusters

RULES = Rules({}, 1.0, 9.0, tries=(3, 8), retry_s=180.0, tick_s=30.0, full=0.9, patience_s=600.0)


class EveryTick(Wrapper):
    """Wakes the policy for every try of every job, whether it could succeed or not."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        found = self.inner.decide(snapshot)
        assert isinstance(found.memory, Memory)
        tries = [wait.next_try_at for wait in found.memory.waits.values()]
        return Schedule(found.changes, min([found.valid_until, *tries]), found.memory)


@st.composite
def tenants_jobs(draw: st.DrawFn) -> list[JobSpec]:
    """Jobs of three tenants, some of which outlast many tries of others."""
    jobs = [
        job(
            f"j{number}",
            size=draw(st.integers(1, 6)),
            length_s=float(draw(st.sampled_from((1, 20, 45, 200)))),
            at=float(draw(st.integers(0, 60))),
            retries=1,
            tenant=draw(st.sampled_from("abc")),
        )
        for number in range(draw(st.integers(2, 12)))
    ]
    return sorted(jobs, key=lambda spec: spec.submit_at)


@st.composite
def parameters(draw: st.DrawFn) -> str:
    r1 = draw(st.integers(0, 4))
    drawn = {
        "r1": r1,
        "r2": draw(st.integers(r1, 9)),
        "retry_s": draw(st.sampled_from((3, 7.5))),
        "tick_s": draw(st.sampled_from((1, 2))),
        "patience_s": draw(st.sampled_from((0, 12, 40))),
        "full": draw(st.sampled_from((0.5, 0.9))),
        "most": draw(st.sampled_from((1, 2, 100))),
    }
    return "&".join(f"{name}={value}" for name, value in drawn.items())


def orders(text: str, jobs: Sequence[JobSpec], cluster: Cluster, *, all_tries: bool) -> list[str]:
    """What happens and what is ordered, with its time; steps in which nothing does are left out."""
    lines: list[str] = []

    def observe(
        now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        if events or actions:
            held_back = sorted(scheduler.policy.held_back(scheduler.snapshot(now)).items())
            lines.append(f"{now!r} {events} {actions} {held_back}")

    chosen = policy(text)
    scheduler = Scheduler(EveryTick(chosen) if all_tries else chosen, cluster)
    engine = SimulatedEngine(list(jobs), ScalingModel.on(cluster), cost=Constant(2.0))
    Simulation(scheduler, engine, observers=(observe,)).run()
    return lines


@given(tenants_jobs(), clusters(), parameters())
@settings(max_examples=25, deadline=None)
def test_tries_that_are_left_out_would_have_failed(
    jobs: list[JobSpec], cluster: Cluster, chosen: str
) -> None:
    fitting = [spec for spec in jobs if spec.asked <= cluster.device_count]
    text = f"philly?{chosen}"
    assert orders(text, fitting, cluster, all_tries=False) == orders(
        text, fitting, cluster, all_tries=True
    )


def test_a_late_decision_makes_the_try_that_it_was_woken_for() -> None:
    """A try is counted as failed only if it was due before the moment that was asked for."""
    memory = Memory({"a": Wait(180.0, 1, fair_share=False)}, vain_until=540.0)
    assert memory.at(545.0, RULES)["a"] == Wait(540.0, 3, fair_share=False)
    assert memory.at(400.0, RULES)["a"] == Wait(540.0, 3, fair_share=False)
    assert memory.at(360.0, RULES)["a"] == Wait(360.0, 2, fair_share=False)


def test_tries_for_want_of_a_share_are_not_counted() -> None:
    memory = Memory({"a": Wait(180.0, 1, fair_share=True)}, vain_until=1e6)
    assert memory.at(7200.0, RULES)["a"] == Wait(7200.0, 1, fair_share=True)

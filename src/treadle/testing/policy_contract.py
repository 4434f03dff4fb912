"""The contract of a policy: subclass PolicyContract, override `make`, and run pytest."""

from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.core.actions import Action
from treadle.core.cluster import Cluster
from treadle.core.events import Event, JobFinished
from treadle.core.job import JobSpec
from treadle.core.ports import InterleavingModel, Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies.base.placement import PLACEMENTS, Placement, placement
from treadle.policies.wrappers.wrapper import Wrapper
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.checks import check
from treadle.testing.strategies import clusters, workloads

_quick = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.differing_executors]
)


class PolicyContract:
    """Rules that every policy must follow, whatever it optimises."""

    def make(self, placement: Placement, belief: InterleavingModel) -> Policy:
        """A fresh policy. Override this."""
        raise NotImplementedError

    @_quick
    @given(cluster=clusters(), jobs=workloads(), place=st.sampled_from(sorted(PLACEMENTS)))
    def test_every_job_that_can_run_finishes_and_snapshots_are_left_alone(
        self, cluster: Cluster, jobs: list[JobSpec], place: str
    ) -> None:
        """The scheduler itself refuses devices booked twice and sizes that a job does not offer."""
        run = _Run(self, cluster, jobs, place, watch=True)
        assert run.finished | set(run.scheduler.unfit) == {spec.id for spec in jobs}
        assert not run.finished & set(run.scheduler.unfit)

    @_quick
    @given(cluster=clusters(), jobs=workloads(), place=st.sampled_from(sorted(PLACEMENTS)))
    def test_the_same_facts_give_the_same_orders(
        self, cluster: Cluster, jobs: list[JobSpec], place: str
    ) -> None:
        assert _Run(self, cluster, jobs, place).log == _Run(self, cluster, jobs, place).log


class _Run:
    """One simulated run under the contract's policy, checked after every step."""

    def __init__(
        self,
        contract: PolicyContract,
        cluster: Cluster,
        jobs: list[JobSpec],
        place: str,
        *,
        watch: bool = False,
    ) -> None:
        model = TokenModel(ScalingModel.on(cluster), StageTimes())
        policy = contract.make(placement(place), model)
        self.log: list[tuple[float, Action]] = []
        self.finished: set[str] = set()
        self.scheduler = Scheduler(Watched(policy) if watch else policy, cluster)
        engine = SimulatedEngine(jobs, model)
        Simulation(self.scheduler, engine, observers=(self._observe,)).run(until=1e6)

    def _observe(
        self, now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        check(scheduler)
        self.log += [(now, action) for action in actions]
        self.finished |= {event.job for event in events if isinstance(event, JobFinished)}


class Watched(Wrapper):
    """A policy that answers every snapshot twice alike, and leaves it alone."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        before = _frozen(snapshot)
        schedule = self.inner.decide(snapshot)
        assert self.inner.decide(snapshot) == schedule, "the same snapshot got another answer"
        assert _frozen(snapshot) == before, "the policy changed the snapshot"
        return schedule


def _frozen(snapshot: Snapshot) -> tuple[object, ...]:
    return (
        snapshot.now,
        snapshot.cluster,
        dict(snapshot.jobs),
        list(snapshot.free),
        {device: dict(turns) for device, turns in snapshot.tenants.items()},
        list(snapshot.ranking.queue),
        [job.id for job in snapshot.holding()],
    )

"""A small world for tests of weave: orders are carried out at once."""

from treadle.core.actions import Stop
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobFinished, JobStarted, JobStopped, JobSubmitted
from treadle.core.job import Job, JobSpec, Profile
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy

LOADS = Profile(load_s=0.8, compute_s=0.2)
COMPUTES = Profile(load_s=0.001, compute_s=0.999)


class World:
    """A scheduler whose orders are carried out at once; jobs run at one iteration a second."""

    def __init__(self, name: str, *devices: int) -> None:
        belief = TokenModel(ScalingModel(), StageTimes())
        chosen = policy(name, placement("consolidate"), belief)
        nodes = tuple(Node(f"n{number}", count) for number, count in enumerate(devices))
        self.scheduler = Scheduler(chosen, Cluster(nodes))

    def step(self, now: float, *facts: JobSubmitted | JobFinished) -> None:
        actions = self.scheduler.step(facts, now)
        stops = [one for one in actions if isinstance(one, Stop)]
        others = [one for one in actions if not isinstance(one, Stop)]
        self.scheduler.take([JobStopped(one.job, one.id, 0.0) for one in stops], now)
        self.scheduler.take([JobStarted(one.job, one.id, 0.0, 1.0) for one in others], now)

    def size(self, job: str) -> int:
        return self.scheduler.jobs[job].size

    def holders(self, *jobs: str) -> set[tuple[object, ...]]:
        rows = [self.scheduler.jobs[job].allocation for job in jobs]
        return {row.devices for row in rows if row is not None}


def submitted(
    name: str, work: float, sizes: tuple[int, ...] = (1,), profile: Profile = COMPUTES
) -> JobSubmitted:
    return JobSubmitted(JobSpec(name, work, sizes, profile=profile))


def waiting(spec: JobSpec) -> Job:
    """A job that was just submitted."""
    return Job(spec, 0, Phase.WAITING, 0.0, 0.0)

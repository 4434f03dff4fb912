"""AFS, AFS-P and altruistic scheduling where things are degenerate, and where a path is short."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.stories import Story, play
from treadle.core.actions import Action, Stop
from treadle.core.cluster import Cluster
from treadle.core.events import JobSubmitted
from treadle.core.job import Job, JobSpec, Profile
from treadle.core.ports import Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Snapshot
from treadle.models.scaling import ScalingModel
from treadle.policies.afs.afs import Afs
from treadle.policies.afs.blind import AfsBlind
from treadle.policies.base.placement import PLACEMENTS, Placement, placement
from treadle.policies.simple.altruistic import Altruistic
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import job
from treadle.testing.strategies import clusters, workloads

Make = Callable[[Placement], Policy]
MAKERS: dict[str, Make] = {
    "afs": lambda place: Afs(place, ScalingModel()),
    "afs packed": lambda place: Afs(place, ScalingModel(), packed=True),
    "afs-p": lambda place: AfsBlind(place, ScalingModel(), quantum_s=5.0),
    "altruistic": lambda place: Altruistic(place, ScalingModel()),
}
every_policy = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def curved(name: str, *seconds: float, at: float = 0.0, length_s: float = 100.0) -> JobSpec:
    """A job of sizes 1, 2, 3 ... whose iterations take so long there."""
    sizes = tuple(range(1, len(seconds) + 1))
    profile = Profile(curve=tuple(zip(sizes, seconds, strict=True)))
    spec = job(name, sizes=sizes, size=1, length_s=length_s, at=at)
    return replace(spec, profile=profile)


def ends(lines: Sequence[str]) -> dict[str, float]:
    words = [line.split() for line in lines]
    return {word[2]: float(word[0]) for word in words if word[1] == "finish"}


def sizes_given(lines: Sequence[str], name: str) -> set[int]:
    """How many devices a job of a cluster of one node ever held."""
    words = [line.split() for line in lines]
    return {len(word[3].split(",")) for word in words if word[2] == name and len(word) > 3}


# -- few devices, few jobs, many jobs ------------------------------------------------------------


@every_policy
def test_one_device_serves_all_one_after_another(make: Make) -> None:
    jobs = [job(f"j{n}", sizes=(1, 2, 4), size=1, length_s=10.0 + n) for n in range(4)]
    lines = play(make(placement("count")), jobs, "1x1")
    assert set(ends(lines)) == {"j0", "j1", "j2", "j3"}
    assert max(ends(lines).values()) == 46.0, "the device is never idle"


# -- jobs that scale badly -----------------------------------------------------------------------


@pytest.mark.parametrize("make", [MAKERS["afs"], MAKERS["afs-p"], MAKERS["altruistic"]])
def test_fragmentation_gives_no_size_that_is_slower_than_a_smaller_one(make: Make) -> None:
    """Four devices would be best, no node has more than three free, and three are slower than two.

    Four small jobs fill a node and a fifth is on the other; none of them moves.
    """
    story = Story(make(placement("consolidate")), "2x4")
    story.tell(0.0, *(JobSubmitted(job(name, size=1)) for name in "xabcy"))
    story.runs(0.0, *"xabcy")
    assert story.free() == "n1:1 n1:2 n1:3"
    orders = story.tell(1.0, JobSubmitted(curved("z", 1.0, 0.6, 0.7, 0.5)))
    assert [order.allocation.size for order in orders if not isinstance(order, Stop)] == [2]


@given(
    curves=st.lists(
        st.lists(st.sampled_from([0.5, 0.8, 0.9, 1.0, 1.2, 1.6]), min_size=1, max_size=6),
        min_size=1,
        max_size=6,
    ),
    devices=st.integers(1, 12),
    name=st.sampled_from(["afs", "afs-p", "altruistic"]),
)
@settings(max_examples=25, deadline=None)
def test_no_job_ever_holds_a_size_that_is_no_faster_than_a_smaller_one(
    curves: list[list[float]], devices: int, name: str
) -> None:
    """Times are products of steps, so that most curves go down and up again.

    Packed, a job passes counts that tile no node, so there it is true of those that do.
    """
    times = [list(accumulate(steps, lambda a, b: a * b)) for steps in curves]
    jobs = [curved(f"j{n}", *times[n], at=float(n)) for n in range(len(times))]
    lines = play(MAKERS[name](placement("count")), jobs, f"1x{devices}")
    for n, seconds in enumerate(times):
        for size in sizes_given(lines, f"j{n}"):
            assert all(smaller > seconds[size - 1] for smaller in seconds[: size - 1])


# -- profiles with stages that take no time ------------------------------------------------------


# -- lengths that nobody knows -------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(jobs=workloads(jobs_max=8), cluster=clusters(), factors=st.lists(st.integers(1, 50)))
def test_afs_p_gives_the_same_orders_whatever_the_lengths(
    jobs: list[JobSpec], cluster: Cluster, factors: list[int]
) -> None:
    """The same arrivals at the same moments; lengths differ, all beyond the last moment."""

    def orders(lengths: Sequence[float]) -> list[Action]:
        policy = AfsBlind(placement("count"), ScalingModel(), quantum_s=5.0)
        story = Story(policy)
        story.scheduler = Scheduler(policy, cluster)
        given_out: list[Action] = []
        for spec, length in zip(jobs, lengths, strict=True):
            now = spec.submit_at
            actions = story.tell(now, JobSubmitted(replace(spec, iterations=length)))
            given_out += actions
            story.runs(now, *(a.job for a in actions if not isinstance(a, Stop)))
        return given_out

    factors = (factors + [1] * len(jobs))[: len(jobs)]
    assert orders([1e6] * len(jobs)) == orders([1e6 * factor for factor in factors])


# -- short paths ---------------------------------------------------------------------------------


class _Thorough:
    """Never takes the short path for a cluster with room for all."""

    def with_room_for_all(self, snapshot: Snapshot) -> list[Job] | None:
        return None


class ThoroughAfs(_Thorough, Afs):
    pass


class ThoroughBlind(_Thorough, AfsBlind):
    pass


class ThoroughAltruistic(_Thorough, Altruistic):
    pass


PAIRS: list[tuple[Make, Make]] = [
    (lambda p: Afs(p, ScalingModel()), lambda p: ThoroughAfs(p, ScalingModel())),
    (
        lambda p: AfsBlind(p, ScalingModel(), quantum_s=5.0),
        lambda p: ThoroughBlind(p, ScalingModel(), quantum_s=5.0),
    ),
    (lambda p: Altruistic(p, ScalingModel()), lambda p: ThoroughAltruistic(p, ScalingModel())),
]


def orders(policy: Policy, cluster: Cluster, jobs: Sequence[JobSpec]) -> list[tuple[float, str]]:
    """Every order of a run, as text."""
    log: list[tuple[float, str]] = []

    def observe(now: float, _: object, actions: Sequence[Action], __: object) -> None:
        log.extend((now, str(action)) for action in actions)

    engine = SimulatedEngine(jobs, ScalingModel())
    Simulation(Scheduler(policy, cluster), engine, observers=(observe,)).run(until=1e6)
    return log


@pytest.mark.parametrize(("short", "thorough"), PAIRS, ids=["afs", "afs-p", "altruistic"])
@settings(max_examples=15, deadline=None)
@given(cluster=clusters(), jobs=workloads(), place=st.sampled_from(sorted(PLACEMENTS)))
def test_with_room_for_all_the_short_path_gives_the_same_orders(
    short: Make, thorough: Make, cluster: Cluster, jobs: list[JobSpec], place: str
) -> None:
    expected = orders(thorough(placement(place)), cluster, jobs)
    assert orders(short(placement(place)), cluster, jobs) == expected

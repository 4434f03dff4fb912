"""No stop and no resize of a running job that cannot pay for itself before the job ends."""

from dataclasses import replace

import pytest

from tests.unit.stories import Story, Told, on, play
from treadle.core.errors import InvalidInputError
from treadle.core.events import JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.policies.wrappers.pays import Pays, why_no_larger
from treadle.testing.builders import job, policy


def costly(spec: JobSpec, restart_s: float = 10.0, **profile: object) -> JobSpec:
    """The same job, whose restart takes so long."""
    return replace(spec, profile=replace(spec.profile, restart_s=restart_s, **profile))  # type: ignore[arg-type]


def orders(text: str, *jobs: JobSpec, cluster: str = "1x1") -> list[str]:
    lines = play(text, list(jobs), cluster, cost_s=10.0)
    return [line for line in lines if " finish " not in line]


@pytest.mark.parametrize(("at", "stopped"), [(50.0, True), (79.0, True), (85.0, False)])
def test_u3_a_job_is_preempted_only_if_it_runs_for_longer_than_its_restart_costs(
    at: float, stopped: bool
) -> None:
    """`a` takes 100 s and 10 s to restart; `b` is shorter and arrives at that second."""
    a, b = costly(job("a", length_s=100.0)), costly(job("b", length_s=5.0, at=at))
    assert f"{at:g} stop a" in orders("srtf", a, b), "without the rule it is always stopped"
    assert (f"{at:g} stop a" in orders("srtf+pays", a, b)) is stopped


def test_u3_a_restart_that_was_never_seen_is_taken_to_cost_ten_seconds() -> None:
    a, b = job("a", length_s=100.0), job("b", length_s=5.0, at=85.0)
    assert "85 stop a" not in orders("srtf+pays", a, b)
    assert "85 stop a" in orders("srtf+pays?unknown_s=5", a, b)


def test_u3_a_job_with_all_its_steps_done_is_not_stopped() -> None:
    story = Story("fifo+priority+pays", "1x1")
    story.tell(0.0, JobSubmitted(costly(job("a", length_s=100.0), restart_s=0.5)))
    story.runs(0.0, "a")
    story.tell(100.0, JobSubmitted(replace(job("b", length_s=5.0), priority=5)))
    assert story.phases() == "a:running b:waiting"
    reason = story.scheduler.why("b", 100.0)
    assert reason.cause == "settling"
    assert reason.sentence == (
        "job a would make way for it, but is expected to end in a moment, before a restart could "
        "pay"
    )


@pytest.mark.parametrize(("left_s", "grows"), [(900.0, True), (45.0, False)])
def test_u3_a_job_grows_only_if_it_gains_more_than_the_restart_costs(
    left_s: float, grows: bool
) -> None:
    """On 2 devices instead of 1 it takes a fifth less time, and the 10 s of the restart more."""
    spec = costly(job("a", size=1, sizes=(1, 2), length_s=1000.0), curve=((1, 100.0), (2, 80.0)))
    found = decided([spec], {"a": on(0, 1)}, left_s=left_s)
    assert (found == {"a": on(0, 1)}) is grows


def test_u2_one_job_at_a_time_is_on_probe() -> None:
    """Both would grow to a size that was never measured; the second waits for the first."""
    curve = ((1, 100.0), (2, 50.0), (4, 25.0))
    specs = [job(name, size=1, sizes=(1, 2, 3), length_s=1000.0) for name in "ab"]
    jobs = [costly(spec, curve=curve, measured=(1, 2)) for spec in specs]
    assert decided(jobs, {"a": on(0, 2, 3), "b": on(1, 4, 5)}) == {"a": on(0, 2, 3)}
    assert decided(jobs, {"a": on(0, 2), "b": on(1, 3)}) == {"a": on(0, 2), "b": on(1, 3)}


def test_u2_a_probe_must_pay_for_the_way_back_too() -> None:
    spec = job("a", size=1, sizes=(1, 2), length_s=1000.0)
    spec = costly(spec, curve=((1, 100.0), (2, 50.0)), measured=(1,))
    assert decided([spec], {"a": on(0, 1)}, left_s=38.0) == {}  # It would gain 19 s.
    assert decided([spec], {"a": on(0, 1)}, left_s=42.0) == {"a": on(0, 1)}


def test_u3_the_cost_of_an_unknown_restart_is_a_number_of_seconds() -> None:
    with pytest.raises(InvalidInputError, match="pays unknown_s must be 0 or more, not -1"):
        policy("fifo+pays?unknown_s=-1")


class Wishing(Told):
    """A policy that wants these changes of the jobs that it sees, again and again."""

    def __init__(self, wishes: dict[str, object]) -> None:
        super().__init__()
        self.wishes = wishes

    def decide(self, snapshot: Snapshot) -> Schedule:
        seen = {row.id for row in snapshot.holding()}
        return Schedule({name: new for name, new in self.wishes.items() if name in seen})  # type: ignore[misc]


def decided(
    jobs: list[JobSpec], wishes: dict[str, object], *, left_s: float = 900.0
) -> dict[str, object]:
    """What remains of these wishes; all jobs have run on one device each until so much is left."""
    start = Told(Schedule({spec.id: on(number) for number, spec in enumerate(jobs)}))
    story = Story(start, "1x8")
    story.tell(0.0, *map(JobSubmitted, jobs))
    story.runs(0.0, *(spec.id for spec in jobs))
    now = jobs[0].iterations - left_s
    wrapper = Pays(Wishing(wishes), ScalingModel(), 10.0)
    return dict(wrapper.decide(story.scheduler.snapshot(now)).changes)


@pytest.mark.parametrize("restart_s", [0.0, 10.0], ids=["unknown", "known"])
@pytest.mark.parametrize("measured", [(), (1,)], ids=["", "probe"])
@pytest.mark.parametrize("left_s", [15.0, 38.0, 42.0, 55.0, 900.0])
def test_u3_why_says_what_the_decision_goes_by(
    restart_s: float, measured: tuple[int, ...], left_s: float
) -> None:
    """On 2 devices instead of 1 it takes half the time."""
    spec = job("a", size=1, sizes=(1, 2), length_s=1000.0)
    spec = costly(spec, restart_s, curve=((1, 100.0), (2, 50.0)), measured=measured)
    story = Story(Told(Schedule({"a": on(0)})), "1x8")
    story.tell(0.0, JobSubmitted(spec))
    story.runs(0.0, "a")
    wrapper = Pays(Told(), ScalingModel(), 10.0)
    now = spec.iterations - left_s
    why = why_no_larger(wrapper, story.scheduler.snapshot(now).jobs["a"], [2], now)
    grows = bool(decided([spec], {"a": on(0, 1)}, left_s=left_s))
    assert (why is None) is grows
    if why is not None:
        known = "a restart would cost 10 s" if restart_s else "what a restart would cost is unknown"
        assert why.startswith(known)

"""Gangs whose promise is missed, because jobs take longer than they are believed to."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.core.actions import Action, Start
from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.policies.wrappers.reservation import reservations
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import job, policy

HUNG_S = 1e6
LONGEST_S = 20.0


def stubborn(spec: JobSpec) -> JobSpec:
    """The same job where it cannot resume."""
    return replace(spec, resumable=False)


class Watch:
    """When jobs started and reservations were made, and how long devices were idle."""

    def __init__(self) -> None:
        self.begun: dict[str, float] = {}
        self.reserved: dict[str, float] = {}
        self.idle_s = 0.0  # device seconds while small jobs waited
        self.said: list[str] = []
        self._last = (0.0, 0)

    def __call__(
        self, now: float, _events: object, actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        at, idle = self._last
        self.idle_s += idle * (now - at)
        for entry in reservations(scheduler.state.memory):
            self.reserved.setdefault(entry.job, entry.since_at)
        for action in actions:
            if isinstance(action, Start):
                self.begun.setdefault(action.job, now)
        small = [row for row in scheduler.snapshot(now).waiting() if row.spec.asked == 1]
        self._last = now, scheduler.tenancy.free.total if small else 0
        self.said += [scheduler.why(row.id, now).sentence for row in small[:1]]


def run(
    text: str, jobs: Sequence[JobSpec], believed_s: Mapping[str, float], until: float = 1e5
) -> Watch:
    """Play jobs that cannot resume, and that policies believe to be so long."""
    watch = Watch()

    def announced(spec: JobSpec) -> JobSpec:
        return replace(spec, iterations=believed_s.get(spec.id, spec.iterations))

    engine = SimulatedEngine([stubborn(spec) for spec in jobs], ScalingModel(), announced=announced)
    scheduler = Scheduler(policy(text), Cluster.grid(1, 4))
    Simulation(scheduler, engine, observers=(watch,)).run(until=until)
    return watch


@pytest.mark.parametrize("inner", ["backfill", "las+steady", "afs+priority+pays+steady"])
def test_u12_a_hung_job_before_a_gang_does_not_stop_the_others(inner: str) -> None:
    """Two jobs hang, a gang of four waits for them, and sixty jobs of 20 s go on around it.

    Two devices need 600 s for them; kept idle, they would never end.
    """
    jobs = [
        job("hung1", length_s=HUNG_S),
        job("hung2", length_s=HUNG_S),
        job("gang", size=4, length_s=10.0, at=1.0),
        *(job(f"s{n}", length_s=20.0, at=2.0 + n) for n in range(60)),
    ]
    watch = run(f"{inner}+reserve", jobs, {"hung1": 30.0, "hung2": 60.0}, until=3600.0)
    assert "gang" in watch.reserved
    assert "gang" not in watch.begun
    assert set(watch.begun) == {spec.id for spec in jobs} - {"gang"}
    last_at = max(watch.begun.values())
    assert last_at < 1200.0
    assert watch.idle_s < 0.35 * 2 * last_at
    late = "jobs on its devices take longer than expected, and no other starts there for"
    assert any(late in sentence for sentence in watch.said)


def test_a_gang_that_missed_its_promise_keeps_its_place() -> None:
    """The hung job is gone after 300 s: the gang starts within as long again, before later jobs."""
    jobs = [
        job("hung", length_s=300.0),
        job("gang", size=4, length_s=10.0, at=1.0),
        *(job(f"s{n}", length_s=20.0, at=2.0 + 5 * n) for n in range(400)),
    ]
    watch = run("backfill+reserve", jobs, {"hung": 30.0})
    assert 300.0 <= watch.begun["gang"] <= 2 * 300.0


@st.composite
def misjudged(draw: st.DrawFn) -> tuple[list[JobSpec], dict[str, float]]:
    jobs, believed_s = [], {}
    for number in range(draw(st.integers(2, 25))):
        size = draw(st.sampled_from([1, 1, 1, 2, 4]))
        length_s = float(draw(st.integers(1, int(LONGEST_S))))
        at = float(draw(st.integers(0, 60)))
        jobs.append(job(f"j{number}", size=size, length_s=length_s, at=at))
        believed_s[f"j{number}"] = length_s * draw(st.sampled_from([0.02, 0.1, 0.5, 1.0, 2.0]))
    return sorted(jobs, key=lambda spec: spec.submit_at), believed_s


@pytest.mark.parametrize("inner", ["backfill", "srtf", "las"])
@settings(max_examples=20, deadline=None)
@given(drawn=misjudged())
def test_u12_the_wait_of_a_gang_is_bounded_whatever_is_believed(
    inner: str, drawn: tuple[list[JobSpec], dict[str, float]]
) -> None:
    """No job can resume. With no rest believed longer than four times the longest run, a gang
    waits for at most the first promise and 16 times the longest run, for each reservation.
    """
    jobs, believed_s = drawn
    watch = run(f"{inner}+reserve?overtakes=1", jobs, believed_s)
    assert set(watch.begun) == {spec.id for spec in jobs}
    bound_s = max(believed_s.values()) + 16 * LONGEST_S
    sequence = {spec.id: place for place, spec in enumerate(jobs)}
    line = sorted(watch.reserved, key=lambda name: (watch.reserved[name], sequence[name]))
    for place, name in enumerate(line):
        assert watch.begun[name] - watch.reserved[name] <= (place + 1) * bound_s

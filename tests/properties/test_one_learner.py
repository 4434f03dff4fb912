"""The simulator's belief and the live controller learn the same from the same observations."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.control.learning import JobLearner, Profiles, keys_of
from treadle.core.actions import Action
from treadle.core.attempt import How, LastProgress
from treadle.core.cluster import Cluster
from treadle.core.events import AttemptEnded, Event, JobFinished, JobStarted
from treadle.core.job import JobSpec, Profile
from treadle.core.scheduler import Observer, Scheduler
from treadle.models.learning.belief import Learned, learning
from treadle.models.learning.observations import of_end
from treadle.models.learning.rules import LIVE, SIMULATED, Rules
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.store.rows import ProfileRow

SIZES = (1, 2, 3, 4, 6, 8, 16, 40)
KEYS = keys_of("me", "resnet", ("python", "train.py"))
BOTH = [pytest.param(SIMULATED, id="SIMULATED"), pytest.param(LIVE, id="LIVE")]

# Size, units of work a second, and whether the devices were shared.
Seen = tuple[int, float, bool]
_speeds = st.one_of(st.floats(0.01, 100.0), st.sampled_from([0.0, 1.0, 1.1, 1.2]))
_sights = st.lists(st.tuples(st.sampled_from((1, 2, 4, 8, 16)), _speeds, st.booleans()))


def spec(asked: int) -> JobSpec:
    return JobSpec("a", 1.0, sizes=SIZES, asked=asked, profile=Profile(model="resnet"))


def kinds(job: JobSpec) -> tuple[str, ...]:  # all jobs here are alike
    return KEYS


def simulated(rules: Rules, sights: Sequence[Seen]) -> Learned:
    belief = Learned(ScalingModel(), kinds=kinds, rules=rules)
    for size, speed, shared in sights:
        belief.observe(spec(1), size, speed, shared=shared)
    return belief


def teach(profiles: Profiles, sights: Sequence[Seen]) -> None:
    """Attempts that were stopped after a minute of reports at that speed."""
    for size, speed, shared in sights:
        seen = of_end(
            size,
            whole=False,
            ran_s=60.0,
            share_per_s=speed,
            measured_s=60.0,
            shared=shared,
        )
        profiles.observe(KEYS, seen)


def agree(profiles: Profiles, belief: Learned, *, work: float = 1.0) -> None:
    """Length at every size, and speed at every size of a job that asks for any of them.

    `work`: how many of the simulator's iterations are the whole job.
    """
    for asked in SIZES:
        job = spec(asked)
        live = profiles.expect(KEYS, asked, model="resnet", estimate_s=None, sizes=SIZES)
        assert (live.source == "nothing") == (belief.basis(job) == 0)
        if belief.basis(job):
            assert live.length_s == pytest.approx(work / belief.alone(job, asked))
        # The live controller's own model reads the profile that the job was given.
        read = JobSpec("a", live.length_s, sizes=SIZES, asked=asked, profile=live.profile)
        for size in SIZES:
            relative = belief.alone(job, size) / belief.alone(job, asked)
            assert ScalingModel().alone(read, size) == pytest.approx(relative)


@pytest.mark.parametrize("rules", BOTH)
@given(sights=_sights)
def test_the_same_observations_give_the_same_speeds_and_lengths(
    rules: Rules, sights: list[Seen]
) -> None:
    profiles = Profiles(rules=rules)
    teach(profiles, sights)
    agree(profiles, simulated(rules, sights))


@pytest.mark.parametrize("rules", BOTH)
@given(sights=_sights, later=_sights)
def test_what_was_stored_and_read_back_learns_on_as_if_it_had_never_stopped(
    rules: Rules, sights: list[Seen], later: list[Seen]
) -> None:
    """1. A controller learns, stores rows and ends. 2. The next reads them and learns on."""
    first, whole = Profiles(rules=rules), Profiles(rules=rules)
    teach(first, sights)
    rows: dict[str, ProfileRow] = {row.key: row for row in first.changes(1.0)}
    second = Profiles(rows.values(), rules=rules)
    teach(second, later)
    rows.update((row.key, row) for row in second.changes(1.0))
    teach(whole, [*sights, *later])
    assert rows == {row.key: row for row in whole.changes(1.0)}
    agree(second, simulated(rules, [*sights, *later]))


# -- a run ----------------------------------------------------------------------------------------

WORK = 500.0
CLUSTER = Cluster.grid(1, 8)


def ends_teach(learner: JobLearner, *, reporting: bool) -> Observer:
    """What learns live, driven by a simulated run as the controller drives it.

    `reporting`: jobs report their steps, and their ends look as if they were stopped; otherwise the
    time that they ran is all that is known.
    """
    started_at: dict[str, float] = {}

    def observe(
        now: float,
        events: Sequence[Event],
        actions: Sequence[Action],
        scheduler: Scheduler,
    ) -> None:
        for event in events:
            if isinstance(event, JobStarted):
                job = scheduler.jobs[event.job]
                started_at[event.job] = now
                learner.begin(event.job, event.action, job.size, share=0.0, now=now)
                learner.meter.see(event.job, 0.0, WORK, now)
            elif isinstance(event, JobFinished):
                gauge = learner.meter.see(event.job, WORK, WORK, now)
                assert gauge is not None
                said = LastProgress(
                    WORK, WORK, share_per_s=gauge.share_per_s(), measured_s=gauge.measured_s
                )
                ended = AttemptEnded(
                    event.job,
                    event.action,
                    attempt=1,
                    how=How.STOPPED if reporting else How.EXITED,
                    code=None if reporting else 0,
                    started_at=started_at[event.job],
                    ended_at=now,
                    ran_s=now - started_at[event.job],
                    progress=said if reporting else None,
                )
                learner.learn(KEYS, ended, size=gauge.size, only=True)
                learner.end(event.job)

    return observe


@pytest.mark.parametrize("reporting", [False, True])
@pytest.mark.parametrize("rules", BOTH)
def test_a_simulated_run_teaches_the_live_controller_what_it_teaches_the_belief(
    rules: Rules, *, reporting: bool
) -> None:
    truth = ScalingModel.on(CLUSTER)
    jobs = [
        JobSpec(f"j{number}", WORK, sizes=(size,), profile=Profile(model="resnet", serial=0.3))
        for number, size in enumerate((1, 4, 2, 4, 1))
    ]
    learner, belief = JobLearner(), Learned(truth, kinds=kinds, rules=rules)
    learner.profiles = Profiles(rules=rules)
    scheduler = Scheduler(policy("fifo", placement("count"), belief), CLUSTER)
    watchers = (learning(belief), ends_teach(learner, reporting=reporting))
    Simulation(scheduler, SimulatedEngine(jobs, truth), observers=watchers).run()
    assert not scheduler.jobs
    assert belief.alone(jobs[1], 4) == pytest.approx(truth.alone(jobs[1], 4))
    agree(learner.profiles, belief, work=WORK)

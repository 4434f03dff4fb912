"""What policies are kept from knowing: speeds that must be learned, wrong lengths."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.events import JobSubmitted, JobUpdated
from treadle.core.job import JobSpec, Profile
from treadle.core.scheduler import Scheduler
from treadle.models.lengths.gittins import equivalent_s
from treadle.models.lengths.prior import philly
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
from treadle.sim.engine import SimulatedEngine
from treadle.sim.experiment import Experiment, prepare
from treadle.sim.run import Simulation
from treadle.sim.settings import Settings
from treadle.testing.builders import job
from treadle.traces.workload import Workload

CLUSTER = Cluster.grid(1, 4)


def elastic(identity: str, length_s: float, *, at: float = 0.0, serial: float = 0.0) -> JobSpec:
    profile = Profile(model=f"m{serial:g}", serial=serial)
    return JobSpec(identity, length_s, sizes=(1, 2, 3, 4), asked=1, profile=profile, submit_at=at)


def experiment(jobs: Sequence[JobSpec], **settings: object) -> Experiment:
    chosen = Settings(**{"policy": "afs", "placement": "count", **settings})  # type: ignore[arg-type]
    return prepare(Workload.of("w", jobs), CLUSTER, chosen)


def refusal(**settings: object) -> str:
    with pytest.raises(InvalidInputError) as caught:
        experiment([job("a")], **settings)
    return str(caught.value)


def test_a_job_that_scales_badly_gets_an_equal_share_until_it_was_seen() -> None:
    """1. At 0, both are thought linear and share alike. 2. Both were seen at two devices, and at
    the next event, c's arrival, the one that gains nothing makes way.
    """
    jobs = [
        elastic("bad", 500.0, serial=1.0),
        elastic("good", 500.0),
        elastic("c", 1.0, at=10.0, serial=0.5),
    ]
    shares: dict[str, list[int]] = {}
    for belief in ("known", "learned", "prior"):
        run = experiment(jobs, belief=belief)
        run.simulation.run(until=5.0)
        early = run.simulation.scheduler.jobs["bad"].size
        run.simulation.run(until=60.0)
        shares[belief] = [early, run.simulation.scheduler.jobs["bad"].size]
    assert shares == {"known": [1, 1], "learned": [2, 1], "prior": [2, 2]}


def test_jobs_share_only_after_their_like_was_seen_alone() -> None:
    """1. All are unseen and one runs. 2. Its model was seen, and the next join it."""
    jobs = [
        replace(job(f"j{n}", size=4, length_s=500.0, at=10.0 * n), profile=Profile(model=model))
        for n, model in enumerate(("gpt2", "a2c", "gpt2", "a2c"))
    ]
    run = experiment(jobs, policy="muri-s?autopack=off", belief="learned")
    run.simulation.run(until=5.0)
    run.simulation.run(until=15.0)
    assert [row.size for row in run.simulation.scheduler.jobs.values()] == [4, 0]
    assert run.finish().finished == 4


def test_measurements_may_be_off_and_a_belief_that_measures_nothing_takes_no_error() -> None:
    jobs = [elastic("a", 50.0), elastic("b", 50.0, serial=0.5, at=1.0)]
    exact = experiment(jobs, belief="learned").finish()
    noisy = experiment(jobs, belief="learned", belief_error=1.0, seed=3).finish()
    assert exact.finished == noisy.finished == 2
    assert refusal(belief="prior", belief_error=0.1) == (
        "belief prior measures nothing; it takes no belief error"
    )


def test_policies_get_a_wrong_length_and_the_record_keeps_the_true_one() -> None:
    told: dict[str, float] = {}

    def listen(now, events, actions, scheduler) -> None:
        told.update((e.spec.id, e.spec.iterations) for e in events if isinstance(e, JobSubmitted))

    jobs = [job(f"j{number}", length_s=100.0, at=10.0 * number) for number in range(6)]
    run = experiment(jobs, policy="srtf", length_error=1.0)
    run.simulation.observe(listen)
    summary = run.finish()
    assert min(told.values()) < 100.0 < max(told.values())
    stories = run.recorder.histories
    assert all(story.spec is spec for story, spec in zip(stories.values(), jobs, strict=True))
    assert sum(story.service_s for story in stories.values()) == pytest.approx(600.0)
    assert summary.finished == 6


def test_without_contention_wrong_lengths_change_nothing_that_is_reported() -> None:
    jobs = [job(f"j{number}", length_s=100.0) for number in range(4)]
    right = experiment(jobs, policy="srtf").finish()
    wrong = experiment(jobs, policy="srtf", length_error=2.0).finish()
    assert replace(wrong, decide_cpu_s=0.0) == replace(right, decide_cpu_s=0.0)


def test_a_job_that_runs_longer_than_its_estimate_has_nothing_left_and_runs_on() -> None:
    engine = SimulatedEngine(
        [job("a", length_s=100.0)],
        ScalingModel.on(CLUSTER),
        announced=lambda spec: replace(spec, iterations=10.0),
    )
    scheduler = Scheduler(policy("srtf", placement("count"), ScalingModel()), CLUSTER)
    run = Simulation(scheduler, engine)
    run.run(until=50.0)
    assert scheduler.jobs["a"].remaining_at(50.0) == 0.0
    run.run()
    assert run.now == 100.0
    assert not scheduler.jobs


# -- lengths by losses ----------------------------------------------------------------------------


def training(identity: str, model: str, length_s: float, *, at: float = 0.0) -> JobSpec:
    profile = Profile(model=model)
    return JobSpec(identity, length_s, sizes=(1, 2, 4), asked=1, profile=profile, submit_at=at)


def test_with_losses_policies_get_a_limit_and_jobs_end_when_they_end() -> None:
    jobs = [training("a", "predictable-1", 500.0), training("b", "unpredictable-1", 300.0)]
    run = experiment(jobs, policy="tiresias", lengths="losses")
    run.simulation.run(until=1.0)
    told = run.simulation.scheduler.jobs
    assert all(told[spec.id].spec.iterations >= 1.2 * spec.iterations for spec in jobs)
    assert run.finish().finished == 2
    assert run.simulation.now == 500.0


def test_policies_get_the_true_length_of_a_job_that_declares_its_steps() -> None:
    run = experiment([job("a", length_s=50.0)], policy="optimus", lengths="losses")
    run.simulation.run(until=1.0)
    assert run.simulation.scheduler.jobs["a"].spec.iterations == 50.0


def test_unknown_lengths_and_beliefs_that_contradict_each_other_are_refused() -> None:
    assert refusal(lengths="x") == (
        "lengths 'x' are not known; expected one of auto, known, losses, steps, survival"
    )
    for settings in ({"belief": "learned"}, {"belief_error": 0.1}, {"length_error": 0.1}):
        assert "leave belief and errors out" in refusal(lengths="losses", **settings)


# -- lengths that are learned ---------------------------------------------------------------------


def told_by(
    lengths: str, jobs: Sequence[JobSpec], *, field: str = "iterations"
) -> dict[str, list[float]]:
    """What policies were told of each job's work, in order."""
    told: dict[str, list[float]] = {}

    def listen(now, events, actions, scheduler) -> None:
        for event in events:
            if isinstance(event, JobSubmitted | JobUpdated):
                told.setdefault(event.spec.id, []).append(getattr(event.spec, field))

    run = experiment(jobs, policy="srtf", belief="learned", lengths=lengths)
    run.simulation.observe(listen)
    assert run.finish().finished == len(jobs)
    stories = run.recorder.histories
    assert all(story.spec is spec for story, spec in zip(stories.values(), jobs, strict=True))
    return told


def alike(count: int, length_s: float) -> list[JobSpec]:
    profile = Profile(model="resnet")
    return [
        JobSpec(f"j{n}", length_s, profile=profile, owner="me", submit_at=1000.0 * n)
        for n in range(count)
    ]


def test_a_job_that_reports_is_known_once_it_runs_and_its_like_from_then_on() -> None:
    told = told_by("steps", alike(9, 500.0))
    ordered = told_by("steps", alike(9, 500.0), field="order_work")
    assert told["j0"][0] == pytest.approx(philly(1).mean()), "nothing was known"
    assert ordered["j0"][0] == pytest.approx(equivalent_s(philly(1)))
    assert told["j0"][-1] == 500.0
    assert told["j8"][0] == pytest.approx(500.0, rel=0.5)


def test_jobs_that_wait_are_ordered_by_how_soon_they_may_end_and_not_by_their_mean() -> None:
    """Nine of ten like it took 10 s. Its mean is a quarter of an hour, so by that it would wait for
    every job with ten minutes left, though it is likely to end, or to say its length, at once."""
    jobs = [*alike(9, 10.0), *alike(10, 10_000.0)[9:], *alike(21, 10.0)[20:]]
    told, ordered = (told_by("steps", jobs, field=name) for name in ("iterations", "order_work"))
    assert ordered["j20"][0] == pytest.approx(10.0, rel=0.5)
    assert told["j20"][0] > 900.0


def test_a_silent_job_is_expected_to_take_longer_the_longer_it_runs() -> None:
    told = told_by("survival", [*alike(5, 100.0), *alike(6, 5000.0)[5:]])
    assert told["j5"] == pytest.approx(sorted(told["j5"]))
    assert told["j5"][-1] > 2.0 * told["j5"][0]


@pytest.mark.parametrize("name", ["afs", "muri-l", "aiturbo", "las"])
@pytest.mark.parametrize("lengths", ["steps", "survival"])
def test_hidden_lengths_give_the_same_run_twice(name: str, lengths: str) -> None:
    jobs = [elastic(f"j{n}", 100.0 + 37.0 * n, at=20.0 * n, serial=0.1) for n in range(12)]
    settings = {"policy": name, "belief": "learned", "lengths": lengths}
    first, second = (experiment(jobs, **settings).finish().jct_mean_s for _ in range(2))
    assert first == second


def test_gittins_goes_by_the_distribution_of_lengths_whatever_is_known_of_speeds() -> None:
    """Nine jobs of 10 s and one of 10,000 s have ended, and one like them waits: that it may well
    end in 10 s counts for more than that such jobs take a quarter of an hour on average."""
    lengths = [10_000.0, *(10.0 for _ in range(9)), 5000.0, 10.0]
    jobs = [job(f"j{n}", length_s=s, at=20_000.0 * n, size=4) for n, s in enumerate(lengths[:-1])]
    jobs.append(job("last", length_s=10.0, at=200_001.0, size=4))
    found = {}
    for belief in ("known", "learned"):
        run = experiment(jobs, policy="gittins?keep=1e9", belief=belief, lengths="survival")
        run.simulation.run(until=200_002.0)
        scheduler = run.simulation.scheduler
        row, now = scheduler.jobs["last"], 200_002.0
        assert row.allocation is None
        found[belief] = -scheduler.policy.rank(row, now).value * row.spec.asked
        by_mean = len(lengths[:10]) / sum(lengths[:10])
        assert found[belief] > 5 * by_mean
    assert found["known"] == pytest.approx(found["learned"])


@pytest.mark.parametrize("belief", ["known", "learned"])
def test_aiturbo_relies_on_no_length_that_a_job_did_not_say(belief: str) -> None:
    """Whatever is known of speeds: silent jobs are unpredictable, jobs that report are not."""
    for lengths, known in (("survival", False), ("steps", True)):
        jobs = [job("a", length_s=5000.0)]
        run = experiment(jobs, policy="aiturbo", belief=belief, lengths=lengths)
        run.simulation.run(until=1000.0)
        decider = getattr(run.simulation.scheduler.policy, "_inner")  # noqa: B009
        row = run.simulation.scheduler.jobs["a"]
        assert decider._values._lengths.forecast(row, 1000.0).predictable is known


def test_sharing_can_be_worse_than_policies_believe_and_only_jobs_that_share_notice() -> None:
    jobs = [
        replace(job(f"j{n}", size=4, length_s=500.0), profile=Profile(model=model))
        for n, model in enumerate(("gpt2", "a2c"))
    ]
    ends: dict[tuple[str, float], float] = {}
    for name in ("muri-s?autopack=off", "srtf"):
        for error in (0.0, 0.2):
            summary = experiment(jobs, policy=name, sharing_error=error).finish()
            assert summary.makespan_s is not None
            ends[name, error] = summary.makespan_s
    assert ends["srtf", 0.2] == ends["srtf", 0.0]
    # Both are slower by a fifth while they share; what the longer one does alone is as before.
    assert ends["muri-s?autopack=off", 0.0] < ends["muri-s?autopack=off", 0.2]
    assert ends["muri-s?autopack=off", 0.2] < ends["muri-s?autopack=off", 0.0] / 0.8

"""A recorded run, simulated under another policy."""

from dataclasses import replace
from pathlib import Path

import pytest

from treadle.cli.study.journal_file import finish_with_journal
from treadle.core.cluster import Cluster
from treadle.core.events import JobProgressed, JobStarted
from treadle.core.job import JobSpec, Profile
from treadle.journal.journal import Journal, read
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.study.own_orders import CLOSE, AsOrdered, error
from treadle.study.whatif import (
    Lived,
    contradicted,
    observed,
    simulated,
    with_own_orders,
    workload_of,
)
from treadle.study.whatif import recorded as lives_of
from treadle.traces.workload import Workload


def completions(lives: dict[str, Lived]) -> dict[str, float]:
    return {name: lived.completion_s for name, lived in lives.items()}


def recorded(path: Path, policy: str, jobs: list[JobSpec], **options: object) -> Journal:
    """The journal of a simulated run, as a live one would have written it."""
    settings = Settings(policy=policy, **options)  # type: ignore[arg-type]
    experiment = prepare(
        Workload.of("made", jobs), Cluster.grid(1, 4), settings, stopwatch=lambda: 0.0
    )
    finish_with_journal(experiment, path)
    return read(path)


RIGID = [
    JobSpec("a", 40.0, (4,), submit_at=0.0),
    JobSpec("b", 10.0, (1,), submit_at=1.0),
    JobSpec("c", 20.0, (2,), submit_at=2.0),
    JobSpec("d", 5.0, (4,), submit_at=3.0),
]


@pytest.mark.parametrize("policy", ["fifo", "srtf"])
def test_the_policy_of_then_gives_what_was(tmp_path: Path, policy: str) -> None:
    """1. Jobs of one size run under a policy that lets them be. 2. Their lengths are read off the
    record. 3. The same policy again gives the same ends."""
    journal = recorded(tmp_path / "j", policy, RIGID)
    assert completions(simulated(journal, policy)) == pytest.approx(completions(lives_of(journal)))


@pytest.mark.parametrize("policy", ["fifo", "las"])
def test_u11_the_orders_of_then_give_the_times_of_then(tmp_path: Path, policy: str) -> None:
    journal = recorded(tmp_path / "j", policy, RIGID)
    assert completions(with_own_orders(journal)) == pytest.approx(completions(lives_of(journal)))


def test_u11_the_orders_of_resized_jobs_give_about_the_times_of_then(tmp_path: Path) -> None:
    profile = Profile(size=4, curve=((1, 4.0), (2, 2.5), (4, 1.0)))
    jobs = [
        JobSpec("a", 60.0, (1, 2, 4), asked=4, profile=profile),
        JobSpec("b", 30.0, (1, 2, 4), asked=4, profile=profile, submit_at=20.0),
    ]
    journal = recorded(tmp_path / "j", "max-min", jobs, restart_cost="3", restart_charge="starts")
    lives, again = lives_of(journal), with_own_orders(journal)
    assert 0 < error(completions(lives), completions(again)) <= CLOSE


def test_orders_for_devices_that_simulated_jobs_still_hold_wait_in_turn(tmp_path: Path) -> None:
    """The jobs take longer than they did then, so that orders for the same device pile up."""
    journal = recorded(tmp_path / "j", "fifo", RIGID)
    longer = [replace(spec, iterations=3.0 * spec.iterations) for spec in RIGID]
    experiment = prepare(
        Workload.of("longer", longer),
        Cluster.grid(1, 4),
        Settings(policy="as recorded"),
        stopwatch=lambda: 0.0,
        made=AsOrdered(journal),
    )
    experiment.finish()
    ends = {name: one.ended_at for name, one in experiment.recorder.histories.items()}
    assert ends == {"a": 30.0, "b": 60.0, "c": 60.0, "d": 63.75}


def test_lengths_by_size_and_the_cost_of_a_start_are_read_off_an_elastic_job(
    tmp_path: Path,
) -> None:
    """A job that is shrunk and grown again, of which every speed is known, at 3 s a start."""
    profile = Profile(size=4, curve=((1, 4.0), (2, 2.5), (4, 1.0)))
    jobs = [
        JobSpec("a", 60.0, (1, 2, 4), asked=4, profile=profile),
        JobSpec("b", 30.0, (1, 2, 4), asked=4, profile=profile, submit_at=20.0),
    ]
    journal = recorded(tmp_path / "j", "max-min", jobs, restart_cost="3", restart_charge="starts")
    seen = observed(journal)
    assert len(seen["a"].ran) > 1, "it was resized"
    assert {job.id for job in workload_of(journal).jobs} == {"a", "b"}
    assert lives_of(journal)["a"].completion_s > 63.0


def test_u11_a_job_that_is_said_to_run_longer_on_more_devices_is_not_believed() -> None:
    """As once on 16 cores: 9 s of training on three and four devices, 152 s on four alone."""
    lives = {"vision": Lived(9.3, 9.3), "probe": Lived(3.7, 3.0)}
    assert contradicted(lives, {"vision": Lived(9.4, 9.4), "probe": Lived(12.0, 3.0)}) is None
    assert contradicted(lives, {"vision": Lived(151.8, 151.8), "probe": Lived(147.0, 3.0)}) == (
        "vision"
    )


def test_u11_a_speed_that_was_assumed_of_a_live_job_is_not_taken_for_measured(
    tmp_path: Path,
) -> None:
    """It runs for 40 s, and what the scheduler believed of it meanwhile was an hour."""
    journal = recorded(tmp_path / "j", "fifo", RIGID[:1])
    steps = []
    for step in journal.steps:
        events = [
            replace(event, attempt=1) if isinstance(event, JobStarted) else event
            for event in step.events
        ]
        begun = [event for event in events if isinstance(event, JobStarted)]
        assumed = [JobProgressed("a", event.action, 0.0, 40.0 / 3600.0) for event in begun]
        steps.append(replace(step, events=[*events, *assumed]))
    live = replace(journal, steps=tuple(steps))
    assert observed(live)["a"].live
    assert observed(live)["a"].lengths.by_size == {}
    assert simulated(live, "fifo")["a"].run_s == pytest.approx(lives_of(live)["a"].run_s)

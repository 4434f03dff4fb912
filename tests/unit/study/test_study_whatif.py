"""A recorded run, simulated under another policy."""

from dataclasses import replace
from pathlib import Path

import pytest

from treadle.cli.study.journal_file import finish_with_journal
from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec, Profile
from treadle.journal.journal import Journal, read
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.study.own_orders import CLOSE, AsOrdered, error
from treadle.study.whatif import (
    completion_s,
    observed,
    own_orders_s,
    recorded_s,
    workload_of,
)
from treadle.traces.workload import Workload


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


@pytest.mark.parametrize("policy", ["fifo", "backfill", "srtf"])
def test_the_policy_of_then_gives_what_was(tmp_path: Path, policy: str) -> None:
    """1. Jobs of one size run under a policy that lets them be. 2. Their lengths are read off the
    record. 3. The same policy again gives the same ends."""
    journal = recorded(tmp_path / "j", policy, RIGID)
    assert completion_s(journal, policy, lambda: 0.0) == pytest.approx(recorded_s(journal))


@pytest.mark.parametrize("policy", ["fifo", "backfill", "srtf", "las"])
def test_u11_the_orders_of_then_give_the_times_of_then(tmp_path: Path, policy: str) -> None:
    journal = recorded(tmp_path / "j", policy, RIGID)
    assert own_orders_s(journal, lambda: 0.0) == pytest.approx(recorded_s(journal))


def test_u11_the_orders_of_resized_jobs_give_about_the_times_of_then(tmp_path: Path) -> None:
    profile = Profile(size=4, curve=((1, 4.0), (2, 2.5), (4, 1.0)))
    jobs = [
        JobSpec("a", 60.0, (1, 2, 4), asked=4, profile=profile),
        JobSpec("b", 30.0, (1, 2, 4), asked=4, profile=profile, submit_at=20.0),
    ]
    journal = recorded(tmp_path / "j", "max-min", jobs, restart_cost="3", restart_charge="starts")
    assert 0 < error(recorded_s(journal), own_orders_s(journal, lambda: 0.0)) <= CLOSE


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


def test_another_policy_gives_the_same_result_as_its_own_run(tmp_path: Path) -> None:
    journal = recorded(tmp_path / "j", "fifo", RIGID)
    simulated = recorded(tmp_path / "k", "backfill", RIGID)
    assert completion_s(journal, "backfill", lambda: 0.0) == pytest.approx(recorded_s(simulated))


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
    assert recorded_s(journal)["a"] > 63.0

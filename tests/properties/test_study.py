"""Whatever ran, an analysis adds up, and that of a run's journal is that of the run."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from treadle.cli.study.journal_file import finish_with_journal
from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec
from treadle.sim.experiment import prepare
from treadle.sim.faults import FaultSettings
from treadle.sim.settings import Settings
from treadle.study.analysis import Analysis, analyse
from treadle.study.record import replayed, simulated
from treadle.testing.strategies import clusters, workloads
from treadle.traces.workload import Workload

POLICIES = st.sampled_from(
    ["fifo", "backfill", "srtf", "afs", "muri-l", "philly?retry_s=3&tick_s=1", "backfill+defrag"]
)
FAULTS = st.builds(
    FaultSettings,
    seed=st.integers(0, 9),
    job_failures=st.sampled_from([0.0, 5.0]),
    checkpoint_every_s=st.sampled_from([3.0, 1800.0]),
    node_mtbf_s=st.sampled_from([30.0, float("inf")]),
    node_repair_s=st.just(5.0),
)
SETTINGS = st.builds(
    Settings,
    policy=POLICIES,
    faults=FAULTS,
    retries=st.integers(0, 2),
    retry=st.sampled_from(["fixed", "classified"]),
    restart_cost=st.sampled_from(["none", "2"]),
    effects=st.sampled_from(["none", "philly"]),
)


def both(jobs: list[JobSpec], cluster: Cluster, settings: Settings) -> tuple[Analysis, Analysis]:
    """The analysis of a run and that of its journal."""
    workload = Workload.of("drawn", jobs)
    experiment = prepare(workload, cluster, settings, stopwatch=lambda: 0.0)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        finish_with_journal(experiment, path)
        return analyse(simulated(experiment, workload)), analyse(replayed(path))


@limits(max_examples=20, deadline=None)
@given(workloads(), clusters(), SETTINGS)
def test_parts_add_up_to_the_whole(
    jobs: list[JobSpec], cluster: Cluster, settings: Settings
) -> None:
    found, _ = both(jobs, cluster, settings)
    whole, *sizes = found.waits
    assert sum(row.jobs for row in sizes) == whole.jobs
    assert sum(row.total_s for row in sizes) == pytest.approx(whole.total_s)
    for row in found.waits:
        assert row.causes_s is not None
        assert sum(row.causes_s.values()) == pytest.approx(row.total_s, abs=1e-6)
        assert all(seconds >= -1e-9 for seconds in row.causes_s.values())
    assert sum(end.jobs for end in found.ends) == found.jobs == len(jobs)
    held = found.usage
    for parts in (held.by_size, held.by_spread):
        assert sum(use.gpu_h for use in parts) == pytest.approx(held.gpu_h)
        assert sum(use.share for use in parts) == pytest.approx(1.0 if held.gpu_h else 0.0)
    assert sum(end.gpu_h for end in found.ends) == pytest.approx(held.gpu_h)
    failed = found.failures
    for rows in (failed.by_class, failed.by_reason, failed.by_size):
        assert sum(row.attempts for row in rows) == failed.attempts
        assert sum(row.gpu_h for row in rows) == pytest.approx(failed.gpu_h)
        assert sum(row.share for row in rows) == pytest.approx(1.0 if failed.gpu_h else 0.0)
    assert failed.gpu_h <= held.gpu_h * (1 + 1e-9)
    assert failed.repeats == failed.attempts - failed.jobs


@limits(max_examples=20, deadline=None)
@given(workloads(), clusters(), SETTINGS)
def test_the_analysis_of_a_journal_is_that_of_the_run(
    jobs: list[JobSpec], cluster: Cluster, settings: Settings
) -> None:
    run, journal = both(jobs, cluster, settings)
    # A journal holds every attempt; a simulation without failures does not know of any.
    failures = replace(run.failures, recorded=True)
    run = replace(run, name="run.jsonl", how=journal.how, notes=(), failures=failures)
    assert journal == run

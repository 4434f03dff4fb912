"""The live decision in a simulation: the same policy by its whole name, and what it is told of."""

from dataclasses import replace
from pathlib import Path

import pytest

from treadle.cli.study.journal_file import finish_with_journal
from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.policies.live.naming import wrapped
from treadle.sim.experiment import Experiment, prepare
from treadle.sim.settings import Settings
from treadle.study.record import replayed
from treadle.testing.builders import job
from treadle.traces.load import load
from treadle.traces.workload import Workload

CLUSTER = Cluster.grid(2, 4)


def ready(settings: Settings, *jobs, cluster: Cluster = CLUSTER) -> Experiment:
    made = Workload.of("made", jobs) if jobs else load("generate:poisson?jobs=25&seed=3")
    return prepare(made, cluster, settings)


def ends(settings: Settings) -> dict[str, float | None]:
    experiment = ready(settings)
    experiment.finish()
    return {name: story.ended_at for name, story in experiment.recorder.histories.items()}


@pytest.mark.parametrize("policy", ["srtf", "weave-l", "afs+defrag"])
def test_a_live_run_is_a_run_of_the_policy_with_its_whole_name(policy: str) -> None:
    assert ends(Settings(policy=policy, live=True)) == ends(Settings(policy=wrapped(policy)))


@pytest.mark.parametrize(("live", "first"), [(False, "early"), (True, "urgent")])
def test_only_a_live_run_heeds_priorities(live: bool, first: str) -> None:
    urgent = replace(job("urgent", at=2.0), priority=10)
    jobs = (job("runs"), job("early", at=1.0), urgent)
    experiment = ready(Settings(live=live), *jobs, cluster=Cluster.grid(1, 1))
    experiment.finish()
    started = {name: one.first_start_at for name, one in experiment.recorder.histories.items()}
    assert min(("early", "urgent"), key=lambda name: started[name] or 0.0) == first


def test_sharing_is_turned_off_only_where_every_policy_shares() -> None:
    settings = Settings(policy="afs?share=off", live=True)
    assert ready(settings).finish().unfinished == 0
    with pytest.raises(InvalidInputError):
        ready(replace(settings, live=False))


def test_the_journal_of_a_live_simulation_is_not_taken_for_a_record_of_a_daemon(
    tmp_path: Path,
) -> None:
    """1. A simulation with the live decision writes a journal. 2. Replayed, it has progress, which
    that of a daemon has not, and the policy's whole name.
    """
    experiment = ready(Settings(policy="srtf", live=True))
    finish_with_journal(experiment, tmp_path / "live.journal")
    record = replayed(tmp_path / "live.journal")
    assert record.has_progress
    assert record.how.endswith(f"under {wrapped('srtf')}")

"""Which simulations show what a guideline saves."""

from dataclasses import replace

import pytest

from treadle.core.cluster import Cluster
from treadle.sim.experiment import prepare
from treadle.sim.faults import FaultSettings
from treadle.sim.settings import Settings
from treadle.study.guidelines import WITHOUT, Trial, assumptions, measured, trials, window
from treadle.study.record import Record, simulated
from treadle.testing.builders import job
from treadle.traces.workload import Workload

BACKFILL = Settings(policy="backfill")


def record(workload: Workload, cluster: str = "1x2", settings: Settings = BACKFILL) -> Record:
    nodes, _, devices = cluster.partition("x")
    grid = Cluster.grid(int(nodes), int(devices))
    experiment = prepare(workload, grid, settings, stopwatch=lambda: 0.0)
    experiment.finish()
    return simulated(experiment, workload)


def test_every_guideline_is_beside_none_of_them() -> None:
    planned = trials(BACKFILL)
    assert [(trial.group, trial.guideline) for trial in planned] == [
        ("placing", WITHOUT),
        ("placing", "wait for locality"),
        ("placing", "dedicated servers"),
        ("placing", "defragmentation"),
        ("placing", "bounded overtaking"),
        ("failing", WITHOUT),
        ("failing", "classified retry"),
        ("failing", "try small first"),
        ("failing", "both of them"),
    ]
    failing = planned[5].settings
    assert (failing.retries, failing.retry, failing.faults.job_failures) == (3, "fixed", 1.0)
    assert {trial.settings.effects for trial in planned} == {"philly"}


def test_what_is_worn_already_is_not_worn_twice() -> None:
    wrapped = replace(BACKFILL, policy="backfill+locality?share=0.5+try-small")
    names = [trial.guideline for trial in trials(wrapped)]
    assert "wait for locality" not in names
    assert "try small first" not in names
    assert "dedicated servers" in names


def test_settings_that_say_something_are_kept() -> None:
    faults = FaultSettings(job_failures=0.5)
    said = replace(
        BACKFILL,
        effects="nodes=0.5",
        restart_cost="10",
        retries=1,
        retry="classified",
        faults=faults,
    )
    planned = trials(said)
    assert {trial.settings.effects for trial in planned} == {"nodes=0.5"}
    assert {trial.settings.restart_cost for trial in planned} == {"10"}
    assert {trial.settings.faults for trial in planned} == {faults}
    assert planned[5].settings.retry == "fixed"  # with and without, whatever is used now
    assert planned[6].settings.retry == "classified"
    assert assumptions(record(Workload.of("x", [job("a")]), settings=said)) == ()


def test_the_window_is_where_jobs_waited_and_carries_on_what_ran_then() -> None:
    calm = [job(f"calm{n}", length_s=1, at=10 * n) for n in range(4)]
    busy = [job(f"busy{n}", size=2, length_s=50, at=100.0 + n) for n in range(3)]
    early = job("early", length_s=101, at=5)
    found = record(Workload.of("x", [*calm, early, *busy]))
    chosen = window(found, 3)
    assert [spec.id for spec in chosen.workload.jobs] == ["early", "busy0", "busy1", "busy2"]
    carried = chosen.workload.jobs[0]
    assert (carried.submit_at, carried.iterations) == (100, 6)
    assert (chosen.chosen, chosen.carried, chosen.of_jobs) == (3, 1, 8)
    assert chosen.sentence == (
        "Simulated with 3 of 8 jobs, the consecutive ones that waited longest, and with what was "
        "left of the 1 running at the start."
    )


def test_an_effect_is_what_the_simulation_gave() -> None:
    jobs = [job("a", size=2, length_s=10), job("b", size=2, length_s=10)]
    (effect,) = measured(
        [Trial("placing", WITHOUT, BACKFILL)], Workload.of("x", jobs), Cluster.grid(1, 2)
    )
    assert effect.completion_mean_s == pytest.approx(15)
    assert effect.wait_mean_s == pytest.approx(5)
    assert effect.gpu_h * 3600 == pytest.approx(40)
    assert (effect.jobs_finished, effect.failed_attempts, effect.wait_large_p95_s) == (2, 0, None)


def test_a_guideline_that_cannot_be_applied_says_why_and_stops_no_other() -> None:
    workload, grid = Workload.of("x", [job("a")]), Cluster.grid(1, 1)
    bad = Trial("placing", "wait for locality", replace(BACKFILL, policy="backfill+locality?x=1"))
    (effect,) = measured([bad], workload, grid)
    assert effect.refused.startswith("wrapper locality has no parameter 'x'")
    with pytest.raises(Exception, match="no parameter"):
        list(measured([replace(bad, guideline=WITHOUT)], workload, grid))

"""How often a job was overtaken, against counting it by hand."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.core.cluster import Cluster
from treadle.reports.overtakes import Overtakes
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.testing.builders import job
from treadle.traces.workload import Workload


@given(st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=60))
def test_starts_of_later_ones_are_those_counted_one_by_one(steps: list[int | None]) -> None:
    """None: a job arrives. A number: one of the arrived jobs starts."""
    counted, places, starts = Overtakes(), [], list[int]()
    for step in steps:
        if step is None:
            places.append(counted.join())
        elif places:
            starts.append(step % len(places))
            counted.start(places[starts[-1]])
        for number, place in enumerate(places):
            assert counted.after(place) == sum(started > number for started in starts)


def test_a_job_that_does_not_fit_is_overtaken_by_jobs_that_start_meanwhile() -> None:
    """b waits for a's end at 100 s; c and d pass it, e comes when it has started."""
    jobs = [
        job("a", size=1, length_s=100.0),
        job("b", size=4, at=1.0),
        job("c", at=2.0, length_s=10.0),
        job("d", at=3.0, length_s=10.0),
        job("e", at=101.0),
    ]
    experiment = prepare(
        Workload("w", tuple(jobs)), Cluster.grid(1, 4), Settings(policy="backfill")
    )
    experiment.simulation.run(until=50.0)
    assert experiment.recorder.overtaken("b") == 2
    experiment.finish()
    counts = {name: story.overtaken for name, story in experiment.recorder.histories.items()}
    assert counts == {"a": 0, "b": 2, "c": 0, "d": 0, "e": 0}

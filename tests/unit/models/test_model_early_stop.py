"""Advice to stop: given where a curve has flattened, never where it falls, and what it saves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec, Profile
from treadle.models.early_stop import stop_advice
from treadle.models.loss_streams import LossForecasts
from treadle.models.losses import Fit, fit
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.testing.builders import job
from treadle.traces.workload import Workload


def falling(half: float, floor: float, points: int = 40) -> Fit:
    """A curve that loses half of what is above its floor in so many iterations."""
    iterations = np.arange(1.0, points + 1)
    return fit(iterations, 1.0 / (1.0 + iterations / half) + floor)


@given(
    half=st.floats(0.5, 50.0),
    floor=st.floats(0.01, 2.0),
    further=st.floats(1.0, 1000.0),
    least=st.floats(1e-4, 0.5),
)
def test_advice_is_given_exactly_where_the_curve_falls_by_no_more_than_asked(
    half: float, floor: float, further: float, least: float
) -> None:
    curve = falling(half, floor)
    advice = stop_advice(
        curve, done=40.0, end=40.0 + further, iterations_per_s=2.0, size=4, least=least
    )
    gain = 1.0 - curve.curve.at(40.0 + further) / curve.curve.at(40.0)
    assert (advice is not None) == (gain <= least and curve.held_out_error <= 0.1)
    if advice is not None:
        assert 0.0 <= advice.gain <= least
        assert advice.device_h == pytest.approx(further / 2.0 * 4 / 3600.0)


@pytest.mark.parametrize(("end", "speed"), [(40.0, 1.0), (30.0, 1.0), (50.0, 0.0)])
def test_a_job_at_its_end_or_not_running_gets_no_advice(end: float, speed: float) -> None:
    curve = falling(0.5, 1.0)
    assert stop_advice(curve, done=40.0, end=end, iterations_per_s=speed, size=1) is None


def test_a_curve_that_does_badly_is_no_ground_for_advice() -> None:
    iterations = np.arange(1.0, 41.0)
    wild = fit(iterations, 2.0 + np.sin(iterations * iterations))
    assert wild.held_out_error > 0.1
    assert stop_advice(wild, done=40.0, end=41.0, iterations_per_s=1.0, size=1, least=1.0) is None


def test_a_running_job_is_advised_by_its_own_losses() -> None:
    spec = JobSpec("a", 2000.0, profile=Profile(model="predictable-3"))
    plain = job("b", length_s=2000.0)
    settings = Settings(policy="fifo", lengths="losses")
    experiment = prepare(Workload("w", (spec, plain)), Cluster.grid(1, 2), settings)
    experiment.simulation.run(until=1500.0)
    jobs, lengths = experiment.simulation.scheduler.jobs, experiment.lengths
    assert isinstance(lengths, LossForecasts)
    advice = lengths.stop_advice(jobs["a"], 1500.0, least=0.5)
    assert advice is not None
    assert advice.iterations == pytest.approx(lengths.forecast(jobs["a"], 1500.0).remaining)
    assert lengths.stop_advice(jobs["a"], 1500.0, least=1e-9) is None
    assert lengths.stop_advice(jobs["b"], 1500.0, least=0.5) is None

"""Simulated losses: a policy sees reported losses only, never future ones."""

from dataclasses import replace

import numpy as np
import pytest

from treadle.core.job import Job, JobSpec, Profile
from treadle.core.lifecycle import Phase
from treadle.models.forecasts import Forecast, Forecasting, forecaster
from treadle.models.loss_streams import LossForecasts, Stream, stream
from treadle.models.scaling import ScalingModel

LENGTH = 1000.0


def spec(model, identity="j", length=LENGTH):
    return JobSpec(identity, length, profile=Profile(model=model))


def row(announced, done):
    return Job(announced, 0, Phase.WAITING, 0.0, 0.0, iterations_done=done)


def seen(job, share, seed=0):
    lengths = LossForecasts([job], seed)
    return lengths, row(lengths.announced(job), share * job.iterations)


def known_stream(job: JobSpec, seed: int) -> Stream:
    found = stream(job, seed)
    assert found is not None, "its family is known"
    return found


def kinds(count=60):
    """Streams of unpredictable families by kind."""
    found: dict[str, list[JobSpec]] = {}
    for number in range(count):
        job = spec(f"unpredictable-{number}")
        found.setdefault(known_stream(job, 0).kind, []).append(job)
    return found


def test_the_same_seed_and_job_report_the_same_losses():
    first, again = (known_stream(spec("predictable-1"), 0).losses(50)[1] for _ in range(2))
    assert np.array_equal(first, again)
    other = known_stream(spec("predictable-1"), 1).losses(50)[1]
    assert not np.array_equal(first, other)


def test_future_losses_do_not_change_the_forecast():
    """Two jobs alike up to now, of which one breaks off its curve later, are believed alike."""
    job = spec("predictable-1")
    lengths, now = seen(job, 0.2)
    early = lengths.forecast(now, 0.0)
    lengths.forecast(row(now.spec, 0.9 * LENGTH), 0.0)  # Later refits are remembered.
    assert lengths.forecast(now, 0.0) == early


def test_the_announced_length_is_a_generous_limit():
    lengths, job = seen(spec("predictable-1"), 0.0)
    assert 1.2 * LENGTH <= job.spec.iterations <= 3.0 * LENGTH
    assert lengths.forecast(job, 0.0) == Forecast(job.spec.iterations, predictable=False)


def test_most_predictable_jobs_are_recognised_and_well_predicted_by_half_time():
    right = []
    for number in range(40):
        lengths, job = seen(spec(f"predictable-{number}"), 0.6)
        forecast = lengths.forecast(job, 0.0)
        if forecast.predictable:
            right.append(forecast.remaining / (0.4 * LENGTH))
    assert len(right) >= 30
    assert np.median(right) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("kind", ["plateau", "oscillation", "divergence"])
def test_hardly_any_unpredictable_job_passes_for_predictable_near_its_end(kind):
    jobs = kinds()[kind][:12]
    taken = sum(
        lengths.forecast(job, 0.0).predictable for lengths, job in (seen(j, 0.85) for j in jobs)
    )
    assert taken <= 1


def test_a_job_that_diverges_stops_being_predictable():
    lost = 0
    for job in kinds()["divergence"]:
        early, late = (seen(job, share) for share in (0.3, 0.9))
        lost += early[0].forecast(early[1], 0.0).predictable
        assert not late[0].forecast(late[1], 0.0).predictable
    assert lost > 0


def test_optimus_believes_its_curve_whether_or_not_the_job_can_be_predicted():
    """A fifth of the limit where the curve does not get there, else what the curve says."""
    curves = 0
    for job in [job for jobs in kinds().values() for job in jobs]:
        lengths, now = seen(job, 0.5)
        left, limit = lengths.trusting(now, 0.0), now.spec.iterations
        assert 0.0 < left <= limit - 0.5 * LENGTH or left == pytest.approx(0.2 * limit)
        curves += left != pytest.approx(0.2 * limit)
    assert curves > 0


def test_what_optimus_believes_does_not_depend_on_when_it_was_asked():
    job = spec("unpredictable-5")
    asked_often, now = seen(job, 0.5)
    for share in (0.1, 0.2, 0.7, 0.3):
        asked_often.trusting(row(now.spec, share * LENGTH), 0.0)
    asked_once, _ = seen(job, 0.5)
    assert asked_often.trusting(now, 0.0) == asked_once.trusting(now, 0.0)


def test_jobs_that_declare_their_steps_are_predictable_by_construction():
    job = spec("resnet")
    lengths, now = seen(job, 0.25)
    assert stream(job, 0) is None
    assert now.spec is job
    assert lengths.forecast(now, 0.0) == Forecast(750.0, predictable=True)
    assert lengths.trusting(now, 0.0) == 750.0


def test_a_belief_with_forecasts_answers_about_speeds_as_before():
    model, job = ScalingModel(), spec("predictable-1")
    lengths, now = seen(job, 0.5)
    belief = Forecasting(model, lengths)
    assert forecaster(belief) is belief
    assert belief.forecast(now, 0.0) == lengths.forecast(now, 0.0)
    assert belief.trusting(now, 0.0) == lengths.trusting(now, 0.0)
    assert belief.alone(job, 1) == model.alone(job, 1)
    assert belief.kind(job) == model.kind(job)
    pair = [job, replace(job, id="k")]
    assert belief.together(pair) == model.together(pair)
    assert belief.efficiency(pair) == model.efficiency(pair)

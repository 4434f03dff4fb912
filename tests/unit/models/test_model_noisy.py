"""A belief that is wrong by a constant factor for each job."""

from dataclasses import replace
from math import exp, log
from statistics import fmean, pstdev

from treadle.models.noisy import Noisy, log_normal, misjudged
from treadle.models.scaling import ScalingModel
from treadle.testing.builders import job


def errors(seed: int, spread: float = 0.5, count: int = 2000) -> list[float]:
    noisy = Noisy(ScalingModel(), spread=spread, seed=seed)
    return [noisy.alone(job(f"j{number}"), 1) for number in range(count)]


def test_the_error_of_a_job_depends_on_its_id_and_the_seed_alone() -> None:
    assert errors(1, count=5) == errors(1, count=5)
    backwards = Noisy(ScalingModel(), spread=0.5, seed=1)
    asked_last_first = [backwards.alone(job(f"j{number}"), 1) for number in reversed(range(5))]
    assert asked_last_first[::-1] == errors(1, count=5)
    assert errors(1, count=5) != errors(2, count=5)


def test_errors_are_log_normal_around_the_truth() -> None:
    logs = [log(error) for error in errors(7)]
    assert abs(fmean(logs)) < 0.04
    assert abs(pstdev(logs) - 0.5) < 0.03
    within = sum(exp(-0.5) < error < exp(0.5) for error in errors(7)) / 2000
    assert abs(within - 0.683) < 0.03


def test_a_misjudged_job_is_longer_or_shorter_and_otherwise_the_same() -> None:
    spec = replace(job("a", size=2, sizes=(1, 2), tenant="t"), estimate_s=50.0)
    wrong = misjudged(spec, spread=1.0, seed=4)
    factor = wrong.iterations / spec.iterations
    assert factor != 1.0
    assert wrong.estimate_s == 50.0 * factor
    assert replace(wrong, iterations=spec.iterations, estimate_s=50.0) == spec
    assert wrong.profile is spec.profile
    assert factor != log_normal(1.0, seed=4, name="a"), "speeds and lengths err independently"

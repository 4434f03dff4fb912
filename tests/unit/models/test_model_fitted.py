"""The five-term curve: what a fit recovers, and the nine models of AFS' evaluation."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.errors import InvalidInputError
from treadle.core.job import Profile
from treadle.models.afs_models import SCALING, fitted, largest, measured
from treadle.models.fitted import Scaling, fit, non_negative_least_squares
from treadle.models.scaling import ScalingModel
from treadle.testing.builders import job

SIZES = (1, 2, 4, 8, 12, 16, 24)
# By model: speed-ups on 2, 4, 8 and 16 GPUs and on the last, the worst error of the notes' fit of
# the times in hundredths, and the last.
TABLE: dict[str, tuple[dict[int, float], float, int]] = {
    "VggnetModel256": ({2: 1.82, 4: 3.48, 8: 6.61}, 2.4, 8),
    "GooglenetModel128": ({2: 1.85, 4: 3.27, 8: 5.60, 16: 8.18, 20: 8.45}, 2.8, 20),
    "Inception4Model256": ({2: 1.95, 4: 3.97, 8: 7.79, 16: 13.8, 52: 31.9}, 4.8, 52),
    "Resnet50Model128": ({2: 1.98, 4: 3.62, 8: 5.95, 16: 9.04, 28: 10.7}, 3.5, 28),
    "DeepspeechModel64": ({2: 1.49, 4: 1.74, 8: 1.83, 16: 1.96, 20: 2.01}, 4.3, 20),
    "TransformerModel256": ({2: 1.89, 4: 3.43, 8: 6.53, 16: 9.85, 44: 14.2}, 7.9, 44),
    "DcganModel256": ({2: 1.81, 4: 3.16, 8: 4.69, 16: 5.88, 20: 6.34}, 5.5, 20),
    "ChatbotModel256": ({2: 1.43, 4: 1.73}, 1.8, 4),
    "VideopredictionModel64": ({2: 1.80, 4: 2.96, 8: 3.81, 16: 4.51, 28: 5.14}, 3.2, 28),
}

# Zero, or large enough that it shows in the times.
term = st.one_of(st.just(0.0), st.floats(0.01, 2.0))


@given(
    shared=st.floats(0.05, 2.0),
    others=st.tuples(term, term, term, term),
    single_s=st.floats(0.01, 100.0),
)
def test_terms_are_recovered_from_points_without_noise(
    shared: float, others: tuple[float, float, float, float], single_s: float
) -> None:
    """A measured time on one device is what the terms are shares of, so they must give 1 there."""
    whole = shared + others[0]
    terms = [one / whole for one in (shared, *others)]
    truth = Scaling(terms[0], terms[1], terms[2], terms[3], terms[4])
    found = fit(truth.curve(SIZES, single_s))
    assert found.scaling.terms == pytest.approx(truth.terms, rel=1e-6, abs=1e-8)
    assert found.single_s == pytest.approx(single_s)
    assert found.error < 1e-9


@given(st.lists(st.floats(0.2, 1.0), min_size=1, max_size=len(SIZES)))
def test_no_term_is_ever_negative(seconds: list[float]) -> None:
    found = fit(list(zip(SIZES, seconds, strict=False)))
    assert min(found.scaling.terms) >= 0


def test_times_that_no_scaling_is_like_are_refused() -> None:
    """They fall by a factor of two hundred from four devices to eight and rise again."""
    with pytest.raises(InvalidInputError, match="one device take some time"):
        fit(list(zip(SIZES, (22.0, 31.0, 50.0, 0.25, 1.0), strict=False)))


@given(
    rows=st.lists(st.tuples(*[st.floats(0, 5)] * 3), min_size=3, max_size=6),
    elsewhere=st.tuples(*[st.floats(0, 3)] * 3),
)
def test_no_other_factors_are_nearer(
    rows: list[tuple[float, float, float]], elsewhere: tuple[float, float, float]
) -> None:
    def error(factors: tuple[float, ...]) -> float:
        sums = [sum(f * x for f, x in zip(factors, row, strict=True)) for row in rows]
        return sum((total - 1.0) ** 2 for total in sums)

    best = non_negative_least_squares(rows, [1.0] * len(rows))
    assert error(best) <= error(elsewhere) + 1e-7


def test_points_that_do_not_tell_terms_apart_are_fitted_by_the_fewest() -> None:
    found = fit([(1, 1.0), (2, 0.5)])
    assert found.scaling.terms == pytest.approx((1.0, 0.0, 0.0, 0.0, 0.0))


def test_another_node_moves_the_step() -> None:
    truth = Scaling(0.9, 0.1, across=0.2, node=8)
    assert truth.ratio(8) == pytest.approx(0.9 / 8 + 0.1)
    assert truth.ratio(16) == pytest.approx(0.9 / 16 + 0.3)
    assert fit(truth.curve(SIZES, 1.0), node=8).scaling.terms == pytest.approx(truth.terms)


@pytest.mark.parametrize("points", [[], [(2, 1.0)], [(1, 1.0), (2, 0.0)]])
def test_points_that_cannot_be_fitted_are_refused(points: list[tuple[int, float]]) -> None:
    with pytest.raises(InvalidInputError, match="the first on one device"):
        fit(points)


@pytest.mark.parametrize("model", TABLE)
def test_the_catalogue_is_the_fit_of_what_was_measured(model: str) -> None:
    assert SCALING[model].terms == pytest.approx(fit(measured(model)).scaling.terms, abs=5.1e-6)


@pytest.mark.parametrize("model", TABLE)
def test_a_fitted_model_gives_the_published_speed_ups(model: str) -> None:
    """A speed-up here is over the measured time on one device; half a last digit is rounding."""
    speedups, worst, last = TABLE[model]
    assert largest(model) == last
    for size, published in speedups.items():
        relative = abs(published * SCALING[model].ratio(size) - 1.0)
        assert relative <= worst / 100 + 0.0005 + 0.005 / published


@pytest.mark.parametrize("model", TABLE)
def test_a_fitted_model_is_off_by_no_more_than_is_said(model: str) -> None:
    assert SCALING[model].error(measured(model)) <= TABLE[model][1] / 100 + 0.0005


def test_a_fitted_curve_is_a_profile() -> None:
    profile = Profile(curve=fitted("DeepspeechModel64"))
    spec, model = replace(job("a", sizes=(1, 20), size=1), profile=profile), ScalingModel()
    expected = SCALING["DeepspeechModel64"].speedup(20)
    assert model.alone(spec, 20) / model.alone(spec, 1) == pytest.approx(expected)

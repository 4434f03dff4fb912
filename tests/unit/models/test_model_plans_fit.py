"""Fitting the plan model: what is recovered, and when it is refitted."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.core.errors import InvalidInputError
from treadle.core.plan import Plan
from treadle.models.plans import refit
from treadle.models.plans.catalogue import TYPES
from treadle.models.plans.fit import KNOBS, SEVEN, Run, fit, relative_error
from treadle.models.plans.iteration_time import Factors, ModelType
from treadle.models.plans.refit import Refitting
from treadle.models.plans.solver import minimise

OFFLOAD = Plan(shard="gradients", offload=True)
TRUTH = TYPES["t5"]
START = replace(TRUTH, factors=Factors(1.5, 1.0, 1e-3, 1.0, 1.0, 1.0, 1.0))
PLACES = [
    *((Plan(), (n,), 1.0) for n in (1, 2, 8)),
    *((Plan(shard="gradients"), shape, 1.0) for shape in [(4,), (4, 4)]),
    *((OFFLOAD, (n,), c) for n, c in [(1, 4.0), (4, 4.0), (8, 2.0)]),
    (Plan(tensor=8), (8,), 1.0),
    (Plan(), (2, 2, 2, 2), 1.0),
]


def run_of(model: ModelType, plan: Plan, shape: tuple[int, ...], cores: float) -> Run:
    times = model.times(plan, shape, cores=cores)
    return Run(
        plan,
        shape,
        times.iteration_ms,
        times.forward_ms,
        times.exchange_ms,
        times.optimizer_ms,
        cores,
    )


def runs_of(model: ModelType) -> list[Run]:
    return [run_of(model, *place) for place in PLACES]


factors = st.builds(
    Factors,
    k_bwd=st.floats(1.2, 3.0),
    k_sync=st.floats(1.1, 4.0),
    k_opt=st.floats(0.01, 0.2),
    k_opt_off=st.floats(0.5, 5.0),
    k_const=st.floats(5.0, 100.0),
    k_off=st.floats(10.0, 300.0),
    k_swap=st.floats(5.0, 100.0),
)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(truth=factors)
def test_factors_are_recovered_from_runs_without_noise(truth: Factors) -> None:
    model = replace(TRUTH, factors=truth)
    found = fit(START, runs_of(model))
    assert found.error < 0.005
    assert found.model.factors.k_bwd == pytest.approx(truth.k_bwd, rel=0.03)
    assert found.model.factors.k_opt_off == pytest.approx(truth.k_opt_off, rel=0.03)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(times=st.lists(st.floats(1.0, 1e6), min_size=len(PLACES), max_size=len(PLACES)))
def test_no_factor_leaves_its_bounds_whatever_was_measured(times: list[float]) -> None:
    runs = [
        Run(plan, shape, ms, cores=cores)
        for (plan, shape, cores), ms in zip(PLACES, times, strict=True)
    ]
    found = fit(START, runs)
    for name in SEVEN:
        number = KNOBS[name].read(found.model)
        assert KNOBS[name].lower * (1 - 1e-9) <= number <= KNOBS[name].upper * (1 + 1e-9)
    assert np.isfinite(found.loss)


def test_links_and_efficiencies_can_be_fitted_too() -> None:
    off = replace(
        TRUTH,
        links=replace(TRUTH.links, inner=50.0),
        facts=replace(TRUTH.facts, tensor_efficiency=((8, 0.9),)),
    )
    runs = [replace(run, forward_ms=0.0) for run in runs_of(TRUTH)]
    found = fit(off, runs, free=("inner", "efficiency-8"))
    assert found.model.links.inner == pytest.approx(TRUTH.links.inner, rel=1e-3)
    assert found.model.facts.efficiency(8) == pytest.approx(0.2692, rel=1e-3)


def test_no_runs_and_plans_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="a fit needs runs"):
        fit(START, [])
    with pytest.raises(InvalidInputError, match=r"d3 on \[4\] devices took 5 ms"):
        Run(Plan(data=3), (4,), 5.0)


def test_the_solver_stops_at_a_bound() -> None:
    found = minimise(
        lambda x: [np.log(x) - np.log(np.array([50.0, 3.0]))],
        [1.0, 1.0],
        lower=[0.1, 0.1],
        upper=[10.0, 10.0],
    )
    assert found.factors == pytest.approx((10.0, 3.0), rel=1e-4)


# -- fitting again ------------------------------------------------------------------------------


def test_a_wrong_model_is_fitted_again_once_enough_was_seen() -> None:
    """1. The model thinks backward takes half as long. 2. Jobs are seen. 3. It learns."""
    wrong = replace(TRUTH, factors=replace(TRUTH.factors, k_bwd=1.0, k_off=10.0))
    learner = Refitting({"t5": wrong})
    answers = [learner.observe("t5", run_of(TRUTH, *place)) for place in PLACES]
    assert [answer is not None for answer in answers] == [False] * 7 + [True, False, False]
    for place in PLACES:
        assert relative_error(learner.types["t5"], run_of(TRUTH, *place)) < 0.08


def test_a_right_model_is_left_alone() -> None:
    learner = Refitting({"t5": TRUTH})
    assert all(learner.observe("t5", run_of(TRUTH, *place)) is None for place in PLACES * 5)
    assert learner.types["t5"] is TRUTH


def test_memory_of_what_was_seen_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refit, "THRESHOLD", 1e9)
    learner = Refitting({"t5": TRUTH})
    for cores in range(1, 100):
        learner.observe("t5", run_of(TRUTH, OFFLOAD, (4,), float(cores)))
    assert len(learner._seen["t5"].runs) == refit.RUNS_MAX
    assert len(learner._seen["t5"].errors) == refit.WINDOW

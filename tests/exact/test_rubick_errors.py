"""Rubick's published errors, from the same formulas with the authors' parameters; and our own fit.

The authors publish, for 25 pairs of a model and a plan, the mean and the largest error of the
predicted iteration. ViT to GPT-2 come from their fit run again; LLaMA's from the numbers that they
set by hand, because the fit of its three rows is useless for anything but off-load.
"""

from dataclasses import replace
from statistics import fmean

import pytest
from tests.exact.rubick_rows import MODELS, authors_model, checks, profile_runs, profiles

from treadle.models.plans.fit import Run, fit, relative_error
from treadle.models.plans.iteration_time import Factors, ModelType

FITTED = ("vit", "roberta", "bert", "t5", "gpt2")
START = Factors(1.5, 1.0, 1e-3, 1.0, 1.0, 1.0, 1.0)


def published(name: str) -> ModelType:
    by_hand = name.startswith("llama")
    return authors_model(name, "history_params" if by_hand else "fitted_params_rerun_here")


def errors_in_hundredths(model: ModelType, runs: list[Run]) -> list[float]:
    return [100 * relative_error(model, run) for run in runs]


def mean_over_checks(name: str, model: ModelType) -> float:
    return fmean(e for runs in checks(name).values() for e in errors_in_hundredths(model, runs))


@pytest.mark.parametrize("name", MODELS)
def test_the_published_errors_come_out_to_a_hundredth_of_a_point(name: str) -> None:
    said = profiles()["models"][name]["prediction_error_pct_avg_max"]
    ours = {
        cell: (fmean(errors), max(errors))
        for cell, runs in checks(name).items()
        for errors in [errors_in_hundredths(published(name), runs)]
    }
    assert ours.keys() == said.keys()
    for cell, pair in said.items():
        assert ours[cell] == pytest.approx(tuple(pair), abs=0.01), cell


@pytest.mark.parametrize("name", FITTED)
def test_our_own_fit_of_the_same_rows_predicts_the_checks_as_well(name: str) -> None:
    """3.4, 4.1, 5.1, 4.1 and 4.5 %, where the authors' own are 3.4, 4.1, 5.1, 4.1 and 3.3 %."""
    model = replace(published(name), factors=START)
    found = fit(model, profile_runs(name))
    assert mean_over_checks(name, found.model) <= {"bert": 5.1, "gpt2": 4.5}.get(name, 4.2)


@pytest.mark.parametrize("name", FITTED)
def test_our_loss_is_never_above_that_of_the_authors_solver(name: str) -> None:
    """For GPT-2 it is half: a power of 42 in its overlap is a place where their solver stops."""
    runs = profile_runs(name)
    ours = fit(replace(published(name), factors=START), runs)
    theirs = fit(published(name), runs, free=("k_const",))
    assert ours.loss <= theirs.loss + 1e-3


@pytest.mark.parametrize("name", ["llama7b", "llama30b"])
def test_llama_cannot_be_fitted_from_its_three_rows(name: str) -> None:
    """All three are off-load, and say 1 ms for an optimizer that runs on the host."""
    found = fit(replace(published(name), factors=START), profile_runs(name))
    split = [
        e
        for cell in ("TP+PP", "DP+TP+PP")
        for e in errors_in_hundredths(found.model, checks(name)[cell])
    ]
    assert fmean(split) > 30

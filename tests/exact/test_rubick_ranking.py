"""Does the plan model know which plan is best? Judged by 512 measured rows on 151 placements.

Two readings of "the best plan is ranked first or within 5 %", both counted: the plan that the model
picks was measured within 5 % of the best measured; the plan measured best is predicted within 5 %
of the best predicted. The catalogue is fitted to part of these placements, so those that it has
never seen are counted apart. The form of the model, though not its numbers, was chosen with all
rows in view: the card for each pair of devices, what sharded gradients cost more.
"""

from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

import pytest
from tests.exact.rubick_rows import (
    MODELS,
    OFFLOAD,
    by_placement,
    measured,
    plan_of,
    profiles,
    shape_of,
)

from treadle.core.plan import Plan
from treadle.models.plans.catalogue import A800, TYPES
from treadle.models.plans.fit import KNOBS, SEVEN, Fit, Run, fit, predict, relative_error
from treadle.models.plans.iteration_time import Factors, ModelType, Shape
from treadle.models.plans.memory import Room, memory

NODE = ("1", "2", "4", "5", "8")
SEEN = {
    **dict.fromkeys(("vit", "roberta", "bert", "t5"), (*NODE, "44", "2222")),
    "gpt2": (*NODE, "44", "2222", "55"),
    "llama7b": (*NODE, "88", "4444"),
    "llama30b": ("8888", "88888"),
}
ALSO = {"t5": ("efficiency-2", "efficiency-4", "efficiency-8"), "gpt2": ("efficiency-5",)}
# Placements, those where the pick is within 5 %, and where the best is predicted within 5 %.
COUNTS = {
    "vit": (30, 19, 15),
    "roberta": (30, 30, 30),
    "bert": (18, 16, 18),
    "t5": (31, 31, 31),
    "gpt2": (25, 25, 25),
    "llama7b": (10, 10, 10),
    "llama30b": (7, 7, 7),
}


class Judged(NamedTuple):
    picked: float  # measured time of the model's pick over the best measured, less 1
    best: float  # predicted time of the plan measured best over the best predicted, less 1
    plans: int


def judged(name: str) -> dict[Shape, Judged]:
    found = {}
    for shape, runs in by_placement(name).items():
        said = [predict(TYPES[name], run).iteration_ms for run in runs]
        were = [run.iteration_ms for run in runs]
        pick, best = said.index(min(said)), were.index(min(were))
        found[shape] = Judged(were[pick] / min(were) - 1, said[best] / min(said) - 1, len(runs))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_the_best_plan_is_picked(name: str) -> None:
    all_of_them = judged(name).values()
    counts = (
        len(all_of_them),
        sum(one.picked <= 0.05 for one in all_of_them),
        sum(one.best <= 0.05 for one in all_of_them),
    )
    assert counts == COUNTS[name]


def test_the_best_plan_is_picked_in_nine_placements_of_ten() -> None:
    """138 of 151; 100 of the 111 never fitted to; 109 of the 122 where plans compete."""
    every = [(name, shape, one) for name in MODELS for shape, one in judged(name).items()]
    good = [row for row in every if row[2].picked <= 0.05]
    assert (len(good), len(every)) == (138, 151)

    def unseen(name: str, shape: Shape) -> bool:
        return shape not in {shape_of(text) for text in SEEN[name]}

    assert sum(unseen(name, shape) for name, shape, _ in good) == 100
    assert sum(unseen(name, shape) for name, shape, _ in every) == 111
    assert sum(one.plans > 1 for _, _, one in good) == 109
    assert sum(one.plans > 1 for _, _, one in every) == 122
    assert sum(one.best <= 0.05 for _, _, one in every) == 136


def test_where_vit_fails_is_where_a_node_has_an_odd_number_of_devices() -> None:
    """Measured there, every plan but off-load is two to six times slower than elsewhere."""
    wrong = [shape for shape, one in judged("vit").items() if one.picked > 0.05]
    assert all(any(count % 2 for count in shape) for shape in wrong)


def test_llama_is_predicted_from_fifteen_of_its_rows() -> None:
    errors = [relative_error(TYPES["llama7b"], run) for run in measured("llama7b")]
    assert len(errors) == 48
    assert fmean(errors) < 0.01
    assert max(errors) < 0.06


def test_micro_batches_predict_runs_that_were_never_fitted() -> None:
    """LLaMA-7B with twice the batch, fed one sample at a time: 13 rows, 4.8 % on average.

    Without micro-batches the same rows are off by half.
    """
    model = TYPES["llama7b"]
    facts = model.facts
    twice = replace(facts, batch=16, forward_ms=2 * facts.forward_ms - facts.forward_fixed_ms)
    larger = replace(model, facts=twice)
    errors: dict[bool, list[float]] = {True: [], False: []}
    for row in profiles()["extra_traces"]["llama7b_bsz16"]:
        if not (row["iter_time"] and row["exec_plan"].isdigit()):
            continue
        plan = plan_of(row["exec_plan"])
        assert plan.data is not None
        for fed in (True, False):
            now = replace(plan, accumulate=16 // plan.data if fed else 1)
            run = Run(now, shape_of(row["placement"]), 1e3 * row["iter_time"])
            errors[fed].append(relative_error(larger, run))
    assert len(errors[True]) == 13
    assert fmean(errors[True]) < 0.05
    assert fmean(errors[False]) > 0.45


@pytest.mark.parametrize("name", MODELS)
def test_every_measured_plan_is_judged_to_fit(name: str) -> None:
    """In some number of micro-batches: how many were used was not written down."""
    facts = TYPES[name].facts
    for run in measured(name):
        size = sum(run.shape)
        share = facts.batch * run.plan.tensor * run.plan.pipeline // size
        pieces = [piece for piece in range(1, share + 1) if share % piece == 0]
        needs = [memory(facts, replace(run.plan, accumulate=n), size) for n in pieces]
        assert any(need.fits(Room()) for need in needs), run


def test_llama_does_not_fit_where_it_was_seen_not_to() -> None:
    """LLaMA-7B does not train on one device but with its optimizer on the host."""
    facts = replace(TYPES["llama7b"].facts, batch=16)
    assert not memory(facts, Plan(recompute=True, accumulate=16), 1).fits(Room())
    assert memory(facts, replace(OFFLOAD, recompute=True), 1).fits(Room())
    assert not memory(TYPES["t5"].facts, OFFLOAD, 1).fits(Room(host_gib=10))


def refitted(name: str) -> Fit:
    """What the catalogue's numbers are made from."""
    runs = [run for run in measured(name, SEEN[name]) if (name, run.shape) != ("roberta", (1,))]
    facts = replace(TYPES[name].facts, recompute=1.0, tensor_efficiency=())
    model = ModelType(facts, A800, Factors(2.0, 1.2, 0.05, 3.0, 10.0, 20.0, 5.0, 0.2))
    free = (*SEVEN, "sharded_extra", "recompute", *ALSO.get(name, ()))
    if name == "llama7b":
        free = ("k_bwd", "k_opt", "k_opt_off", "k_const", "k_off")
        model = replace(model, factors=Factors(2.0, 1.0, 0.05, 20.0, 30.0, 1000.0, 0.0))
    if name == "llama30b":
        free, model = ("forward_ms",), TYPES[name]
    return fit(model, runs, free=free)


@pytest.mark.parametrize("name", MODELS)
def test_the_catalogue_is_what_the_fit_says(name: str) -> None:
    """By its predictions, because some factors, such as two constants, cannot be distinguished."""
    again = refitted(name).model
    for run in measured(name):
        known = predict(TYPES[name], run).iteration_ms
        assert known == pytest.approx(predict(again, run).iteration_ms, rel=0.005), run
    for knob in ("k_bwd", "k_opt_off", "recompute"):
        assert KNOBS[knob].read(TYPES[name]) == pytest.approx(
            KNOBS[knob].read(again), rel=0.02, abs=0.02
        )

"""Allocations and plans that make no sense cannot be built, and say why."""

from typing import Any

import pytest

from treadle.core.allocation import TURNS_MAX, Allocation, Host
from treadle.core.cluster import Device
from treadle.core.errors import InvalidInputError, PolicyError
from treadle.core.plan import DATA_PARALLEL, Plan

A, B, C = Device("n0", 0), Device("n0", 1), Device("n1", 0)


@pytest.mark.parametrize(
    ("devices", "fields"),
    [
        ((), {}),
        ((A, C, A), {}),
        ((A, B, C), {"plan": Plan(tensor=2)}),
        ((A,), {"turn": -1}),
        ((A,), {"turn": TURNS_MAX}),
    ],
)
def test_an_allocation_that_makes_no_sense_is_refused(
    devices: tuple[Device, ...], fields: dict[str, Any]
) -> None:
    with pytest.raises(PolicyError):
        Allocation(devices, **fields)


def test_nodes_are_named_once_each_in_rank_order() -> None:
    allocation = Allocation((C, A, B), plan=Plan(pipeline=3), turn=7, host=Host(4.0, 16.0))
    assert allocation.nodes() == ("n1", "n0")
    assert allocation.size == 3


def test_equal_allocations_are_equal_values() -> None:
    assert Allocation((A, B)) == Allocation((A, B))
    assert hash(Allocation((A, B))) == hash(Allocation((A, B)))
    assert Allocation((A, B)) != Allocation((B, A)), "rank order is part of the value"
    assert Allocation((A,)) != Allocation((A,), turn=1)


@pytest.mark.parametrize("field", ["tensor", "pipeline", "accumulate", "data"])
def test_a_degree_below_one_is_refused(field: str) -> None:
    with pytest.raises(InvalidInputError, match=field):
        Plan(**{field: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plan", "fitting"),
    [
        (DATA_PARALLEL, {1, 2, 3, 4, 5, 6, 7, 8}),
        (Plan(tensor=2), {2, 4, 6, 8}),
        (Plan(tensor=2, pipeline=2), {4, 8}),
        (Plan(tensor=2, data=3), {6}),
    ],
)
def test_a_plan_without_a_data_degree_stretches_and_one_with_it_does_not(
    plan: Plan, fitting: set[int]
) -> None:
    assert {size for size in range(1, 9) if plan.fits(size)} == fitting

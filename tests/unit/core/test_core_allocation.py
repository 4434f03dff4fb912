"""Allocations and plans that make no sense cannot be built, and say why."""

from typing import Any

import pytest

from treadle.core.allocation import TURNS_MAX, Allocation
from treadle.core.cluster import Device
from treadle.core.errors import PolicyError
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

"""Allocations and plans that make no sense cannot be built, and say why."""

import pytest

from treadle.core.allocation import TURNS_MAX, Allocation, Host
from treadle.core.cluster import Device
from treadle.core.errors import InvalidInputError, PolicyError
from treadle.core.plan import DATA_PARALLEL, Plan

A, B, C = Device("n0", 0), Device("n0", 1), Device("n1", 0)


def test_an_allocation_of_no_devices_is_refused() -> None:
    with pytest.raises(PolicyError) as refusal:
        Allocation(())
    assert str(refusal.value) == (
        "an allocation needs at least one device; to take a job's devices away, use None"
    )


def test_a_device_named_twice_is_refused_with_all_of_them() -> None:
    with pytest.raises(PolicyError) as refusal:
        Allocation((A, C, A))
    assert str(refusal.value) == "an allocation names a device twice: n0:0 n1:0 n0:0"


def test_a_plan_that_does_not_fit_the_devices_is_refused() -> None:
    with pytest.raises(PolicyError) as refusal:
        Allocation((A, B, C), plan=Plan(tensor=2))
    assert str(refusal.value) == f"{Plan(tensor=2)} does not fit 3 devices"


@pytest.mark.parametrize("turn", [-1, TURNS_MAX])
def test_a_turn_outside_the_range_is_refused(turn: int) -> None:
    with pytest.raises(PolicyError) as refusal:
        Allocation((A,), turn=turn)
    assert str(refusal.value) == f"turn {turn} is outside 0..7"


def test_nodes_are_named_once_each_in_rank_order() -> None:
    allocation = Allocation((C, A, B), plan=Plan(pipeline=3), turn=7, host=Host(4.0, 16.0))
    assert allocation.nodes() == ("n1", "n0")
    assert allocation.size == 3


def test_equal_allocations_are_equal_values() -> None:
    assert Allocation((A, B)) == Allocation((A, B))
    assert hash(Allocation((A, B))) == hash(Allocation((A, B)))
    assert Allocation((A, B)) != Allocation((B, A)), "rank order is part of the value"
    assert Allocation((A,)) != Allocation((A,), turn=1)


@pytest.mark.parametrize("field", ["tensor", "pipeline", "accumulate"])
def test_a_degree_below_one_is_refused(field: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^a plan's {field} must be at least 1, not Plan"):
        Plan(**{field: 0})  # type: ignore[arg-type]


def test_a_data_degree_below_one_is_refused() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        Plan(data=0)
    assert str(refusal.value) == "a plan's data degree must be at least 1, not 0"


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

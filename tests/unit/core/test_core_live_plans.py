"""Plans as text, and the words in which an attempt says which plans it can change to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.errors import InvalidInputError
from treadle.core.live_plans import (
    Leader,
    ModelSize,
    allows,
    announced,
    leader,
    may_change,
    model_size,
)
from treadle.core.plan import Plan, plan_of

degrees = st.integers(1, 64)
plans = st.builds(
    Plan,
    tensor=degrees,
    pipeline=degrees,
    data=st.none() | degrees,
    shard=st.sampled_from(["none", "optimizer", "gradients", "all"]),
    offload=st.booleans(),
    recompute=st.booleans(),
    accumulate=degrees,
)


@given(plans)
def test_a_plan_comes_back_from_its_text(plan: Plan) -> None:
    assert plan_of(plan.text) == plan


def test_the_default_plan_has_no_words() -> None:
    assert Plan().text == ""
    assert Plan(2, data=4, shard="all", recompute=True, accumulate=4).text == (
        "d4 t2 zero-3 recompute x4"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [("t2 fast", "has the word 'fast'"), ("t0", "has the word 't0'"), ("t2 t4", "tensor twice")],
)
def test_a_text_that_is_no_plan_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        plan_of(text)


@pytest.mark.parametrize(
    ("plan", "whole"),
    [("", True), ("d4 recompute offload x2", True), ("d1 zero-2", True), ("zero-1", False)],
)
def test_members_have_the_whole_state_unless_it_is_split(plan: str, whole: bool) -> None:
    assert plan_of(plan).replicated is whole


def test_an_attempt_can_change_to_the_plans_that_it_announced() -> None:
    can = ("size", *announced(shard=True, recompute=False, tensor=6, pipeline=3))
    allowed = ["", "d4 offload x2", "zero-3", "t2", "t3", "p2", "t6 p3"]
    refused = ["recompute", "t4", "p4"]
    assert [text for text in (*allowed, *refused) if allows(can, plan_of(text))] == allowed
    assert not allows(("size", "devices"), Plan())


def test_the_size_of_a_model_comes_back_from_its_word() -> None:
    size = ModelSize(parameters=1000, batch=8, sequence=16, hidden=32, layers=2, heads=4)
    assert model_size(("plan", size.word)) == size
    assert model_size(("plan", "plan:model=1/2", "plan:model=0/1/1/1/1/1")) is None


def _on(plan: str, *names: str) -> Allocation:
    return Allocation(tuple(Device(name, 0) for name in names), plan=plan_of(plan))


def test_the_node_that_coordinates_comes_back_from_its_word() -> None:
    found = Leader("a-node", 4000, 17)
    assert leader(("size", found.word)) == found
    assert leader(("size", "devices", "host")) is None


@pytest.mark.parametrize(
    ("before", "after", "may"),
    [
        (_on("", "a"), _on("", "a", "b", "c"), True),
        (_on("", "a", "b", "c"), _on("", "c", "a"), True),
        (_on("", "a", "b"), _on("", "a", "c"), True),
        (_on("", "a", "b"), _on("", "b"), False),  # the one that coordinates leaves
        (_on("", "b"), _on("", "b", "c"), False),
        (_on("zero-3", "a", "b"), _on("zero-3", "a"), False),  # no folder is on both
        (_on("d2 recompute", "a", "b"), _on("d3 recompute", "a", "b", "c"), True),
    ],
)
def test_an_attempt_changes_over_nodes_as_long_as_one_of_them_stays(
    before: Allocation, after: Allocation, may: bool
) -> None:
    words = ("size", "devices", *announced(shard=True, recompute=True, tensor=1, pipeline=1))
    assert may_change(before, after, (*words, Leader("a", 1, 1).word)) is may
    assert not may_change(before, after, words)

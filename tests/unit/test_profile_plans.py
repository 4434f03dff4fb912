"""The plans that a profile tries, and what it says of them."""

import pytest

from treadle.cli.study.profile_plans import (
    plan_command,
    plan_table,
    plans_to_try,
    seconds_each,
    why_no_plans,
    worth_of,
)
from treadle.core.live_plans import announced
from treadle.core.plan import Plan
from treadle.study.profiling import Measured

ALL = ("size", "devices", *announced(shard=True, recompute=True, tensor=1, pipeline=1))
LITTLE = ("size", "devices", *announced(shard=False, recompute=False, tensor=1, pipeline=1))
RUNS = [
    Measured(size=1, steps_per_s=10.0, memory_gib=2.0),
    Measured(size=4, steps_per_s=30.0, gpu_memory_gib=10.0, memory_gib=8.0),
]


@pytest.mark.parametrize(
    ("can", "sizes", "on_gpus", "tried"),
    [
        (ALL, [1, 2, 4], False, ["1 recompute", "1 x2", "4 zero-1", "4 zero-3"]),
        (ALL, [1], True, ["1 recompute", "1 x2", "1 offload"]),
        (LITTLE, [1, 2], False, ["1 x2"]),
        (("size", "devices"), [1, 2], True, []),
        ((), [1], True, []),
    ],
)
def test_plans_are_tried_that_the_script_announced(
    can: tuple[str, ...], sizes: list[int], on_gpus: bool, tried: list[str]
) -> None:
    found = plans_to_try(can, sizes, on_gpus=on_gpus)
    assert [f"{size} {plan.text}" for size, plan in found] == tried


def test_why_there_are_no_plans() -> None:
    assert why_no_plans(ALL) == ""
    assert why_no_plans(()) == "unknown: the script does not use treadle.train"
    assert why_no_plans(("size", "devices")).startswith("none: an unmodified script trains data")


def test_a_plan_is_given_to_the_script_itself() -> None:
    command = plan_command(("python", "train.py"), Plan(shard="all", recompute=True))
    assert command[:3] == ("env", "-u", "TREADLE_CHANNEL")
    assert command[3:] == ("TREADLE_PLAN=zero-3 recompute", "python", "train.py")
    assert (seconds_each(20.0), seconds_each(2.0)) == (5.0, 3.0)


@pytest.mark.parametrize(
    ("run", "worth"),
    [
        (Measured(size=1, steps_per_s=12.0, memory_gib=2.0, plan="x2"), "yes: 20% faster"),
        (Measured(size=1, steps_per_s=10.1, memory_gib=1.9, plan="x2"), "no"),
        (
            Measured(size=4, steps_per_s=20.0, gpu_memory_gib=4.0, plan="zero-3"),
            "if memory is short: 60% less, 50% slower",
        ),
        (Measured(size=1, plan="x2", problem="it ended\nout of memory"), "no: out of memory"),
        (Measured(size=2, steps_per_s=1.0, plan="zero-3"), ""),
        (RUNS[0], ""),
    ],
)
def test_what_a_plan_is_worth_beside_data_parallel(run: Measured, worth: str) -> None:
    assert worth_of(run, RUNS) == worth


def test_the_table_begins_with_data_parallel() -> None:
    plan = Measured(size=1, steps_per_s=8.0, memory_gib=1.0, plan="recompute")
    assert plan_table(RUNS, [plan], width=100).splitlines() == [
        "PLAN           DEVICES     STEP  MEMORY  WORTH HAVING",
        "data parallel        1    0.1 s   2 GiB",
        "recompute            1  0.125 s   1 GiB  if memory is short: 50% less, 25% slower",
    ]

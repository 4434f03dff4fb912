"""What a command runs: the script behind what starts it, and its arguments by name."""

import shlex
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.learning.commands import ARGUMENTS_MAX, NO_VARIABLES, Command, number, parsed


def read(line: str, env: Mapping[str, str] = NO_VARIABLES) -> Command:
    return parsed(shlex.split(line), env)


STARTED = "train.py --lr 0.1 30"


@pytest.mark.parametrize(
    ("line", "more"),
    [
        (f"python {STARTED}", {}),
        (f"/opt/env/bin/python3.11 -u -W ignore {STARTED}", {}),
        (f"nohup nice -n 5 python {STARTED}", {"nice -n": "5"}),
        (f"timeout 60s python {STARTED}", {"timeout": "60s"}),
        (f"env -u A LR=1 python {STARTED}", {"env -u": "A", "$LR": "1"}),
        (f"uv run --with torch python {STARTED}", {"uv --with": "torch"}),
        (
            f"conda run -n lab --no-capture-output python {STARTED}",
            {"conda -n": "lab", "conda --no-capture-output": "yes"},
        ),
        (
            f"torchrun --standalone --nproc-per-node=2 {STARTED}",
            {"torchrun --standalone": "yes", "torchrun --nproc-per-node": "2"},
        ),
        (f"accelerate launch --precision bf16 {STARTED}", {"accelerate --precision": "bf16"}),
        (f"deepspeed --num_gpus 2 {STARTED}", {"deepspeed --num_gpus": "2"}),
        (f"python -m torch.distributed.run --nnodes 1 {STARTED}", {"torchrun --nnodes": "1"}),
        (f"bash -c 'python {STARTED}'", {}),
        (f"bash -lc 'exec python {STARTED} > log/7.txt 2>&1'", {}),
        (f"bash -c 'cd x && LR=1 python {STARTED}'", {"shell": "cd x", "$LR": "1"}),
        (f"sh -c 'for i in a b; do python {STARTED}; done'", {"shell": "for i in a b ; do ; done"}),
    ],
)
def test_whatever_starts_a_script_it_is_the_same_script(line: str, more: Mapping[str, str]) -> None:
    found = read(line)
    assert (found.script, found.name, found.file) == ("train.py", "train.py", True)
    assert dict(found.arguments) == {"--lr": "0.1", "#1": "30", **more}


@pytest.mark.parametrize(
    ("line", "script", "arguments"),
    [
        ("python -m lab.run --n=3 x", "lab.run", {"--n": "3", "#1": "x"}),
        ("torchrun -m lab.run lr=0.1 model.size=3", "lab.run", {"lr": "0.1", "model.size": "3"}),
        ("bash run.sh 3", "run.sh", {"#1": "3"}),
        ("./solver in.txt", "./solver", {"#1": "in.txt"}),
        ("sleep 5", "sleep", {"#1": "5"}),
        ("python a.py --fast --lr -0.1", "a.py", {"--fast": "yes", "--lr": "-0.1"}),
        ("python a.py --batch_size 4", "a.py", {"--batch-size": "4"}),
        ("python a.py -v -v", "a.py", {"-v": "yes", "-v (2)": "yes"}),
        (
            "bash -c 'python a.py --n 3 && python b.py --n 5'",
            "a.py+b.py",
            {"a.py --n": "3", "b.py --n": "5"},
        ),
        ("uv pip install x", "uv", {"#1": "pip", "#2": "install", "#3": "x"}),
        ("bash", "bash", {}),
        ("env", "env", {}),
    ],
)
def test_the_script_and_its_arguments(line: str, script: str, arguments: Mapping[str, str]) -> None:
    found = read(line)
    assert (found.script, dict(found.arguments)) == (script, arguments)


def test_a_text_is_a_script_whatever_its_numbers_are() -> None:
    line = "bash -c 'for i in $(seq {0}); do echo step $i/{0}; sleep {1}; done'"
    first, second = (read(line.format(*numbers)) for numbers in ((25, 0.2), (57, 1)))
    assert first.script == second.script
    assert dict(second.arguments) == {"#1": "57", "#2": "57", "#3": "1"}
    assert read("bash -c 'sleep 3'").script != read("bash -c 'wait 3'").script


@pytest.mark.parametrize(
    ("value", "expected"),
    [("30", 30.0), ("-1e-3", -1e-3), ("20M", 20e6), ("2h", 7200.0), ("4KiB", 4e3), ("0", 0.0)]
    + [(word, None) for word in ("", "x3", "3x", "1e999", "9" * 400, "1e-300", "v1.2.3")],
)
def test_a_number_may_have_a_unit(value: str, expected: float | None) -> None:
    assert number(value) == expected


@given(st.lists(st.text(max_size=30), min_size=1, max_size=60))
def test_any_command_can_be_read(words: list[str]) -> None:
    found = parsed(words)
    assert len(found.arguments) <= ARGUMENTS_MAX
    assert found.arguments == tuple(sorted(found.arguments))
    assert parsed(["bash", "-c", " ".join(words)]) == parsed(["bash", "-c", " ".join(words)])

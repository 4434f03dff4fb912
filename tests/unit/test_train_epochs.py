"""What an unmodified script shows of how many steps it will do."""

import runpy
import sys
from pathlib import Path
from types import FrameType

import pytest

pytest.importorskip("torch")

from treadle.train.auto.epochs import Loop, Total, loops_around, passes_left

HEAD = "from argparse import Namespace\nargs, N, c = Namespace(epochs=3), 3, {'n': 3}\n"


def _seen(source: str, folder: Path, real: Path | None = None) -> list[list[Loop] | None]:
    """What is known of the loops at each call of `look` in a script; real: its folder itself."""
    found: list[list[Loop] | None] = []

    def look() -> None:
        frame: FrameType | None = sys._getframe(1)
        found.append(loops_around(frame, str(real or folder)))

    (folder / "train.py").write_text(HEAD + source)
    runpy.run_path(str(folder / "train.py"), init_globals={"look": look})
    return found


@pytest.mark.parametrize(
    "loop", ["range(3)", "range(N)", "range(1, N + 1)", "range(args.epochs)", "range(c['n'])"]
)
def test_the_rounds_of_a_loop_are_read(loop: str, tmp_path: Path) -> None:
    source = f"for epoch in {loop}:\n    if True:\n        look()\n"
    assert _seen(source, tmp_path) == [[Loop(3, 0)], [Loop(3, 1)], [Loop(3, 2)]]


def test_a_script_is_known_by_a_link_to_its_folder_and_not_by_a_like_name(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "link").symlink_to("own")
    source = "for epoch in range(1):\n    look()\n"
    folder = tmp_path / "own"
    assert _seen(source, tmp_path / "link", folder) == [[Loop(1, 0)]]
    (tmp_path / "own2").mkdir()
    assert _seen(source, tmp_path / "own2", folder) == [None]


def test_a_pass_in_a_function_is_in_the_loop_of_its_caller(tmp_path: Path) -> None:
    source = (
        "def train():\n    look()\nfor fold in range(2):\n    for _ in range(2):\n        train()\n"
    )
    seen = _seen(source, tmp_path)
    assert seen[1] == [Loop(2, 0), Loop(2, 1)]
    assert [passes_left(loops or []) for loops in seen] == [4, 3, 2, 1]


@pytest.mark.parametrize(
    "source",
    [
        "n = 0\nwhile n < 2:\n    n += 1\n    look()\n",
        "for epoch in [1, 2]:\n    look()\n",
        "for epoch in range(int('3')):\n    look()\n",
        "for epoch in range(N):\n    epoch = 'x'\n    look()\n",
        "import contextlib\nwith contextlib.ExitStack() as s:\n    s.callback(look)\n",
        "for epoch in range(1000000000000 * 1000000000000):\n    look()\n    break\n",
        "step = 1\nfor epoch in range(0, 3, step):\n    step = 0\n    look()\n",
        (
            "class Odd:\n    __slots__ = ()\n    def __getattr__(self, name):\n"
            "        return {'n': 3}[name]\nodd = Odd()\n"
            "for epoch in range(odd.n):\n    look()\n"
        ),
    ],
)
def test_what_the_source_does_not_say_stays_unknown(source: str, tmp_path: Path) -> None:
    assert None in _seen(source, tmp_path)


def test_the_total_is_steps_of_a_round_times_rounds() -> None:
    """1. Each second batch has a step. 2. In the second round another loader is seen to train."""
    total = Total()
    total.begin_pass([Loop(10, 0)], 0, 0)
    for done in (2, 4, 6, 8):
        total.account(done // 2, done, 8)
    assert total.steps == 40
    total.begin_pass([Loop(10, 0)], 4, 0)
    total.begin_pass([Loop(10, 1)], 10, 0)
    assert total.steps == 10 + 9 * 10


def test_a_run_that_goes_on_in_the_middle_of_an_epoch_measures_the_next() -> None:
    total = Total()
    total.begin_pass([Loop(10, 3)], 34, 4)
    total.account(35, 5, 10)
    total.account(36, 6, 10)
    assert total.steps == 36 + 4 + 60
    total.begin_pass([Loop(10, 4)], 40, 0)
    total.begin_pass([Loop(10, 5)], 50, 0)
    assert total.steps == 100


def test_without_loops_there_is_no_total() -> None:
    total = Total()
    total.begin_pass(None, 0, 0)
    total.account(1, 1, 10)
    total.account(2, 2, 10)
    assert total.steps is None


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ("    look()\n    if epoch == 9:\n        break\n", False),
        ("    look()\n    for i in range(2):\n        pass\n    else:\n        break\n", False),
        ("    look()\n    for i in range(2):\n        break\n", True),
        ("    look()\n    def f():\n        return 1\n", True),
    ],
)
def test_a_loop_that_may_be_left_early_says_no_total(
    body: str, *, known: bool, tmp_path: Path
) -> None:
    seen = _seen(f"for epoch in range(3):\n{body}", tmp_path)
    assert all((loops is not None) is known for loops in seen)

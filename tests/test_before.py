"""Speed beside the commit before: nothing may take more than 1.1 times what it took."""

import subprocess
from pathlib import Path

import pytest
from benchmarks.before import CPU, MOST, base, compare, slower

LOOP = """
import os

def work():
    for number in range({times}):
        number + 1

work()
os._exit(0)
"""


def test_nothing_is_a_tenth_slower_than_the_commit_before() -> None:
    found = base()
    if not found.commit:
        pytest.skip(f"not compared with the commit before: {found.why}")
    assert not slower(found), f"above {MOST} times {found.commit}; python -m benchmarks.before"


def _tree(folder: Path, times: int) -> Path:
    package = folder / "src" / "treadle"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(LOOP.format(times=times))
    return folder / "src"


def test_a_loop_that_runs_a_fifth_longer_is_seen(tmp_path: Path) -> None:
    old, new = _tree(tmp_path / "old", 10_000), _tree(tmp_path / "new", 12_000)
    ratios = compare(old, new, {"loop": ()}, ())
    assert ratios["loop"] == pytest.approx(1.2, abs=0.01)
    assert compare(new, new, {"loop": ()}, ())["loop"] == 1
    assert ratios[CPU] > 0


def test_a_commit_says_what_may_be_slower(tmp_path: Path) -> None:
    """A branch is compared with where it left main, main with the commit before."""

    def git(*words: str) -> None:
        name = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *name, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    assert base(tmp_path) == ("", "there is no git history")
    _tree(tmp_path, 10)
    (tmp_path / ".gitignore").write_text("__pycache__\n")
    git("add", ".")
    git("commit", "-m", "first")
    assert base(tmp_path).why == "the commit before is not in this clone"
    git("checkout", "-b", "mine")
    _tree(tmp_path, 10_000)
    assert "start" in slower(base(tmp_path), tmp_path)
    git("commit", "-a", "-m", "more work\n\nSlower: start 9000, it does more")
    found = base(tmp_path)
    assert "start" not in slower(found, tmp_path)
    assert "fifo" in slower(found, tmp_path)
    git("checkout", "main")
    git("merge", "mine")
    assert base(tmp_path) == found

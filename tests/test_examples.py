"""Every example runs, as its first lines say it does."""

import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = {"elastic_training.py"}  # tests/train/test_modes.py
EXAMPLES = [
    path
    for path in sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
    if path.name not in ELSEWHERE
]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(path: Path) -> None:
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2

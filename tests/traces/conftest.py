"""The folder of the real traces, and a way to write a small one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shared import trace


@pytest.fixture
def real() -> Callable[[str], str]:
    """The path of a real trace; the test is skipped where it is absent."""
    return lambda name: str(trace(name))


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Write a file into a folder of its own, go there, and give its name."""
    monkeypatch.chdir(tmp_path)

    def write(text: str | bytes, name: str = "trace.csv") -> str:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return name

    return write

"""Where the real traces lie, and a way to write a small one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shared import trace


@pytest.fixture
def real() -> Callable[[str], str]:
    """The path of a real trace; the test is skipped where it is absent."""
    return lambda name: str(trace(name))


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., str]:
    """Write a file and give its path."""

    def write(text: str | bytes, name: str = "trace.csv") -> str:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    return write

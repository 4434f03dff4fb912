"""Where the real traces lie, and a way to write a small one."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


def shared_folder() -> Path:
    """WEFT_SHARED, or the folder `shared` beside the checkout."""
    beside = Path(__file__).resolve().parents[2].parent / "shared"
    return Path(os.environ.get("WEFT_SHARED", beside))


@pytest.fixture
def real() -> Callable[[str], str]:
    """The path of a real trace; the test is skipped where it is absent."""

    def path(name: str) -> str:
        found = shared_folder() / "traces" / name
        if not found.exists():
            pytest.skip(f"no real trace at {found}; set WEFT_SHARED to the folder that has it")
        return str(found)

    return path


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., str]:
    """Write a file and give its path."""

    def write(text: str | bytes, name: str = "trace.csv") -> str:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    return write

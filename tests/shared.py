"""Where third-party traces and a browser are, if they are; and how much the long tests do."""

import os
import shutil
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("TREADLE_SHARED", Path(__file__).parents[2] / "shared"))

# `make test-thorough`: as many crashes, kills and readers as a release should stand.
THOROUGH = os.environ.get("TREADLE_THOROUGH") == "1"
# A test or a parameter that costs more than it adds to the others of every day.
thorough = pytest.mark.skipif(not THOROUGH, reason="make test-thorough has it")

# The shell takes half as much of a processor.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)


def trace(name: str) -> Path:
    """A trace of the shared folder; the test is skipped where it is absent."""
    path = SHARED / "traces" / name
    if not path.exists():
        pytest.skip(f"no {path}; set TREADLE_SHARED to the folder that holds traces/")
    return path

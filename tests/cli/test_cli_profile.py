"""`treadle profile` with real jobs."""

import json
import os
import subprocess
import sys
from pathlib import Path

PRINTS = """
import time
for step in range(1, 1001):
    time.sleep(0.02)
    print(f"step {step}/1000", flush=True)
"""


def profile(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "treadle", "profile", "--devices", "1", "--seconds", "2", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
        env={**os.environ, "TREADLE_URL": "unix:/nobody/is/there"},
    )


def test_a_script_that_prints_its_steps_has_a_speed_and_no_stages(tmp_path: Path) -> None:
    (tmp_path / "prints.py").write_text(PRINTS)
    done = profile(tmp_path, "--json", "--", sys.executable, "prints.py")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    (run,) = found["runs"]
    assert 10 < run["steps_per_s"] < 80, "it is seen every half a second: about 45"
    assert run["stages"] == {}
    assert found["bottleneck"] is None
    assert found["sizes_worth_having"] == [1]


def test_a_script_that_fails_is_shown_with_its_last_lines(tmp_path: Path) -> None:
    done = profile(tmp_path, "--", sys.executable, "-c", "raise SystemExit('no data')")
    assert done.returncode == 1
    assert "FAILED with exit code 1; its last lines:\nno data" in done.stdout


def test_sizes_that_there_are_not_are_refused(tmp_path: Path) -> None:
    done = profile(tmp_path, "--sizes", "1,3", "--", "true")
    assert done.returncode == 2
    assert "--sizes is '1,3'; expected numbers from 1 to 1" in done.stderr

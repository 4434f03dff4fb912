"""Published averages, reproduced to the last digit that was printed: replications/peers."""

import json
import subprocess
import sys

import pytest
from replications.run import agrees, expected, measure
from tests.shared import trace


def _name(row: dict[str, str]) -> str:
    return " ".join((row["trace"], row["policy"], row["placement"], row["time"]))


@pytest.mark.parametrize("row", expected(), ids=_name)
def test_a_published_average_comes_out(row: dict[str, str]) -> None:
    trace(f"{row['trace']}.csv.gz")
    jct_mean_s, end_s = measure(row)
    assert agrees(row, jct_mean_s, end_s), f"got {jct_mean_s:.3f} s and {end_s} s"


def test_the_command_line_prints_the_same_number() -> None:
    """One real process, as a user would type it."""
    command = [
        *(sys.executable, "-m", "treadle", "simulate", str(trace("common960.csv.gz"))),
        *("--cluster", "8x8", "--policy", "srtf", "--placement", "count", "--json"),
    ]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    facts = json.loads(printed)
    assert round(facts["jct_mean_s"], 2) == 2875.34
    assert facts["jobs"] == facts["finished"] == 960

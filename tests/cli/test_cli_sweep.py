"""`treadle sweep --vary`: any number of a run against the mean completion time."""

import json

import pytest
from click.testing import CliRunner, Result

from treadle.cli.main import cli
from treadle.cli.study.sweep import varied
from treadle.core.errors import InvalidInputError

TRACE = "generate:poisson?jobs=30&seed=1"


def treadle(*words: str) -> Result:
    return CliRunner().invoke(cli, ["sweep", TRACE, "--workers", "1", *words], prog_name="treadle")


def refused(*words: str) -> str:
    result = treadle(*words)
    assert isinstance(result.exception, InvalidInputError), result.output
    return str(result.exception)


def test_every_combination_of_what_varies() -> None:
    assert list(varied(["belief-error=0,0.5", "belief=known,learned"])) == [
        {"belief_error": 0.0, "belief": "known"},
        {"belief_error": 0.0, "belief": "learned"},
        {"belief_error": 0.5, "belief": "known"},
        {"belief_error": 0.5, "belief": "learned"},
    ]
    assert list(varied([])) == [{}]
    assert list(varied(["effects=none;nodes=0.9,racks=0.8"])) == [
        {"effects": "none"},
        {"effects": "nodes=0.9,racks=0.8"},
    ]


def test_what_varies_is_a_column_of_the_table_and_of_the_rows() -> None:
    words = ("--cluster", "1x4", "--policies", "srtf", "--vary", "length-error=0,2")
    lines = treadle(*words).output.splitlines()
    assert lines[0].split()[:3] == ["policy", "length", "error"]
    assert [line.split()[:2] for line in lines[1:3]] == [["srtf", "0.0"], ["srtf", "2.0"]]
    rows = json.loads(treadle(*words, "--json").output)
    assert [row["length_error"] for row in rows] == [0.0, 2.0]
    assert rows[0]["jct_mean_s"] < rows[1]["jct_mean_s"]


def test_the_live_decision_can_vary() -> None:
    words = ("--cluster", "1x4", "--policies", "afs", "--elastic", "0.05", "--restart-cost", "30")
    rows = json.loads(treadle(*words, "--vary", "live=false,true", "--json").output)
    assert [row["live"] for row in rows] == [False, True]
    assert rows[0]["jct_mean_s"] != rows[1]["jct_mean_s"]


@pytest.mark.parametrize("text", ["speed=1", "length-error", "length-error="])
def test_what_cannot_vary_is_refused(text: str) -> None:
    assert refused("--vary", text).startswith(
        f"--vary {text} is invalid; expected OPTION=A,B with one of belief, belief-error, "
    )

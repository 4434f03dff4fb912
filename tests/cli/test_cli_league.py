"""`treadle league`: rows, cut-offs, plug-ins, the cache and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from treadle.cli.main import cli
from treadle.core.errors import InvalidInputError, TreadleError

TINY = """
[[workload]]
name = "tiny"
trace = "generate:poisson?jobs=12&load=2&seed={seed}"
cluster = "1x4"
elastic = 0.1
why = "small"
"""
MINE = '''
"""Policies of a user."""

import os

from treadle.policies.simple.orders import fifo, srtf


def mine(placement, belief, *, depth: int = 1):
    """In order of arrival."""
    return fifo(placement, belief)


mine.blind = True


def broken(placement, belief):
    """Always wrong."""
    policy = srtf(placement, belief)
    policy.decide = lambda snapshot: 1 / 0
    return policy


def crashing(placement, belief):
    """Ends its process."""
    policy = srtf(placement, belief)
    policy.decide = lambda snapshot: os._exit(3)
    return policy


def endless(placement, belief):
    """Never decides."""
    policy = srtf(placement, belief)

    def decide(snapshot):
        while True:
            pass

    policy.decide = decide
    return policy
'''


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def treadle(place: Path, *words: str, workloads: str = "tiny") -> Result:
    given = ["--add", str(place / "tiny.toml"), "--cache", str(place / "cache"), "--jobs", "1"]
    return CliRunner().invoke(
        cli, ["league", "--workloads", workloads, *given, *words], prog_name="treadle"
    )


def rows(result: Result) -> dict[str, dict[str, Any]]:
    return {row["policy"]: row for row in json.loads(result.stdout)["rows"]}


def refused(result: Result) -> str:
    assert isinstance(result.exception, InvalidInputError), result.output
    return str(result.exception)


def test_both_classes_are_ranked_and_a_second_run_is_read_from_the_cache(place: Path) -> None:
    words = ("--policies", "srtf,afs,las", "--seeds", "2")
    first = treadle(place, *words, "--json", "-")
    assert first.exit_code == 0, first.output
    assert first.stderr == "tiny is done (6 of 6 runs, 0 of them from the cache)\n"
    found = rows(first)
    assert {name: row["group"] for name, row in found.items()} == {
        "srtf": "known",
        "afs": "known",
        "las": "blind",
    }
    assert sorted(row["rank"] for row in found.values()) == [1, 1, 2]
    assert all(row["mean_s"] >= row["bound_shared_s"] > 0 for row in found.values())
    again = treadle(place, *words)
    assert "tiny is done (6 of 6 runs, 6 of them from the cache)" in again.stderr
    printed = again.stdout
    assert "TINY" in printed
    assert "ALL WORKLOADS" in printed
    assert f"{found['srtf']['mean_s']:.0f}" in printed


def test_a_policy_of_a_file_gets_its_row_and_a_broken_one_says_why(place: Path) -> None:
    files = [f"{place / 'mine.py'}:{name}" for name in ("mine", "broken", "crashing")]
    words = ("--policies", "fifo", "--seeds", "1", "--json", "-")
    added = [word for file in files for word in ("--policy-file", file)]
    result = treadle(place, *words, *added)
    found = rows(result)
    assert found["mine"]["group"] == "blind"
    assert found["mine"]["mean_s"] == found["fifo"]["mean_s"]
    assert "policy broken failed at 0 s: ZeroDivisionError" in found["broken"]["trouble"]
    assert found["broken"]["rank"] == 0
    assert found["crashing"]["trouble"] == "its process ended with exit code 3"
    assert isinstance(result.exception, TreadleError)


def test_a_policy_that_takes_too_long_has_lost_and_the_league_fails(place: Path) -> None:
    words = ("--policies", "fifo", "--seeds", "1", "--cpu-limit", "0.4", "--json", "-")
    result = treadle(place, *words, "--policy-file", f"{place / 'mine.py'}:endless")
    assert result.exit_code == 1, result.output
    row = rows(result)["endless"]
    assert (row["rank"], row["trouble"], row["mean_s"]) == (0, "cut off after 0.4 CPU s", 0)
    overall = {one["policy"]: one for one in json.loads(result.stdout)["overall"]}
    assert (overall["endless"]["ranked"], overall["endless"]["to_best"]) == (0, 2)
    assert overall["fifo"]["peak_mb"] > 1


def test_a_page_and_a_file_are_written(place: Path) -> None:
    out, page = place / "out.json", place / "page.html"
    words = ("--policies", "srtf,las", "--seeds", "1", "--json", str(out), "--html", str(page))
    assert treadle(place, *words).exit_code == 0
    assert [row["workload"] for row in json.loads(out.read_text())["rows"]] == ["tiny", "tiny"]
    text = page.read_text()
    assert "<h2" in text
    assert "rect" in text
    assert "treadle league" in text


def test_an_option_of_every_workload_can_be_overridden(place: Path) -> None:
    words = ("--policies", "srtf", "--seeds", "1", "--json", "-")
    plain = treadle(place, *words)
    dear = treadle(place, *words, "--set", "restart_cost=600")
    assert rows(plain)["srtf"]["mean_s"] < rows(dear)["srtf"]["mean_s"]
    assert "--restart-cost 600" in json.loads(dear.stdout)["workloads"][0]["options"]


def test_a_policy_is_set_against_the_others_where_it_is_wrong(place: Path) -> None:
    words = ("--policies", "muri-l,afs", "--seeds", "1", "--one-class", "--against", "muri-l")
    plain = json.loads(treadle(place, *words, "--json", "-").stdout)
    wrong = (*words, "--set", "sharing_error=0.15")
    assert "MURI-L AGAINST THE BEST OTHER" in treadle(place, *wrong).stdout
    worse = json.loads(treadle(place, *wrong, "--json", "-").stdout)
    (before,), (after,) = (one["against"]["muri-l"]["workloads"] for one in (plain, worse))
    assert before["other"] == after["other"] == "afs"
    assert before["other_mean_s"] == after["other_mean_s"]
    assert before["mean_s"] < after["mean_s"]
    assert {row["group"] for row in worse["rows"]} == {"all"}
    learned = json.loads(treadle(place, *words, "--set", "belief=learned", "--json", "-").stdout)
    assert {row["group"] for row in learned["rows"]} == {"learned"}


def test_a_workload_without_its_trace_is_skipped_by_name(place: Path) -> None:
    result = treadle(
        place,
        *("--policies", "srtf", "--seeds", "1", "--traces", "nowhere"),
        workloads="tiny,rigid-muri",
    )
    assert result.exit_code == 0, result.output
    assert (
        "treadle: workload rigid-muri is skipped: nowhere/muri_testbed400.csv.gz does not exist; "
        "give the folder of traces with --traces"
    ) in result.stderr
    assert "rigid-muri was skipped" in result.stdout
    alone = treadle(place, "--traces", "nowhere", workloads="rigid-muri")
    assert refused(alone) == "no workload is left to run; see --traces and --workloads"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--policies", "nope"), "there is no policy 'nope'"),
        (("--policies", "las?x=1"), "policy las has no parameter 'x'"),
        (("--policy-file", "mine"), "expected FILE.py:FACTORY"),
        (("--policy-file", "none.py:f"), "none.py does not exist"),
        (("--policies", ","), "--policies is empty; expected names such as fifo,srtf"),
        (("--policies", "fifo", "--against", "las"), "--against las is not one of the policies"),
        (("--set", "colour=red"), "expected OPTION=VALUE with one of "),
        (("--set", "elastic=much"), "elastic is 'much'"),
        (("--set", "live=maybe"), "live is 'maybe'"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_runs(
    place: Path, words: tuple[str, ...], message: str
) -> None:
    assert message in refused(treadle(place, *words))

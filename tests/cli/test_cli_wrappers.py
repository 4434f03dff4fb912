"""Policies that wear wrappers, and retries by class, from the command line."""

import json

import pytest
from click.testing import CliRunner

from treadle.cli.main import cli

TRACE = "generate:philly?jobs=120&load=0.9&longest=86400&seed=2"


def treadle(*words: str) -> str:
    result = CliRunner().invoke(cli, list(words), prog_name="treadle", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    "policy",
    [
        "afs+locality?share=0.1+defrag",
        "muri-l+dedicated?from=4",
        "backfill+overtaking+try-small?devices=2&seconds=300",
        "philly?quotas=philly+defrag",
    ],
)
def test_a_policy_with_wrappers_runs_a_trace_to_its_end(policy: str) -> None:
    words = ("simulate", TRACE, "--cluster", "4x8", "--policy", policy, "--oversize", "skip")
    facts = json.loads(treadle(*words, "--json"))
    assert facts["policy"] == policy
    assert facts["finished"] == facts["jobs"]


def test_wrappers_are_listed_under_a_heading() -> None:
    lines = treadle("policies").splitlines()
    heading = lines.index("wrappers, which can be added to any policy: POLICY+WRAPPER+WRAPPER")
    assert any(line.startswith("locality ") for line in lines[heading:])
    assert "            +dedicated?from=4" in lines[heading:]
    kinds = {row["name"]: row["kind"] for row in json.loads(treadle("policies", "--json"))}
    assert (kinds["fifo"], kinds["defrag"]) == ("policy", "wrapper")


def test_fair_share_is_among_the_causes_of_waiting() -> None:
    words = ("simulate", TRACE, "--cluster", "2x8", "--policy", "philly", "--oversize", "skip")
    causes = json.loads(treadle(*words, "--json"))["wait_causes"]
    assert causes["fair share"] > 0
    assert sum(causes.values()) == pytest.approx(1.0)
    assert "fair share" in treadle(*words)

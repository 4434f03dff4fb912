"""The classifier on endings of logs, each with the class, and mostly the rule, that is right.

The sets in `logs/` were written for this test. The rules were written after the first six sets and
before the two that are held out. On first contact the rules got 63 of 72 classes right in held_out
and 26 of 30 in held_out_second (together 87 %); of the 13 misses, 12 stayed unknown and one was
wrong. Then the rules were extended, so that all sets are right now.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from treadle.failures.classifier import classify, classify_ranks
from treadle.failures.verdict import Exit, Kind, Verdict

LOGS = Path(__file__).parent / "logs"
SETS = sorted(path.stem for path in LOGS.glob("*.yaml"))
RIGHT_MIN = 0.95


def cases(names: list[str]) -> list[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: list[dict[str, Any]] = []
    for name in names:
        found += yaml.load((LOGS / f"{name}.yaml").read_text("utf-8"), Loader=loader)
    return found


def written(text: str) -> str:
    """YAML cannot hold these characters in a block, so the sets show them as symbols."""
    return text.replace("␍", "\r").replace("␛", "\x1b")


def verdict_of(case: dict[str, Any]) -> Verdict:
    ended = None
    if "exit" in case:
        ended = Exit.of(case["exit"])
    if "signal" in case:
        ended = Exit.by(case["signal"])
    if "ranks" in case:
        logs = {rank: written(text) for rank, text in case["ranks"].items()}
        return classify_ranks(logs, None if ended is None else {"": ended})
    return classify(written(case["text"]), ended)


def right(case: dict[str, Any]) -> bool:
    verdict = verdict_of(case)
    return (verdict.kind, verdict.rule) == (case["class"], case.get("rule", verdict.rule))


ALL = cases(SETS)


@pytest.mark.parametrize("name", SETS)
def test_nineteen_of_twenty_in_each_set_are_right(name: str) -> None:
    wrong = [(case["id"], verdict_of(case)) for case in cases([name]) if not right(case)]
    assert len(wrong) <= (1 - RIGHT_MIN) * len(cases([name])), wrong


@pytest.mark.parametrize(
    "case", [case for case in ALL if case["class"] == "unknown"], ids=lambda case: case["id"]
)
def test_unknown_stays_unknown(case: dict[str, Any]) -> None:
    verdict = verdict_of(case)
    assert verdict.kind is Kind.UNKNOWN, verdict


def test_every_ending_that_is_explained_has_its_line() -> None:
    for case in ALL:
        verdict = verdict_of(case)
        if verdict.kind is not Kind.UNKNOWN:
            assert verdict.evidence is not None
            assert verdict.evidence.text

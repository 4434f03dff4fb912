"""Properties for any text: safe, fast, deterministic, and not misled by later output."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.failures.test_failure_logs import ALL, written
from treadle.failures.classifier import classify
from treadle.failures.pattern import Pattern
from treadle.failures.rules import shipped
from treadle.failures.verdict import Exit, Kind

WORDS = [
    "Traceback (most recent call last):\n",
    '  File "a.py", line 3, in f\n',
    "KeyError: 'x'\n",
    "CUDA out of memory",
    "[rank3]: ",
    "12: ",
    "2026-01-01 10:00:00,123 ",
    "step 3 loss 2.0\n",
    "skipping",
    "NCCL WARN",
    "Root Cause (first observed failure):\n",
    "  rank      : 3 (local_rank: 3)\n",
    "\r",
    "\x1b[31m",
    "\n",
    ": ",
]
TEXTS = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=20)), max_size=60).map("".join)
EXITS = st.one_of(st.none(), st.integers(-64, 255).map(Exit.of))
ORDINARY = st.lists(
    st.sampled_from(
        [
            "",
            "closing files",
            "wandb: Run summary:",
            "2026-01-01 10:00:00,123 INFO main: bye",
            "[INFO] elapsed 3.2 s",
            "node n3 released",
            "----------",
        ]
    ),
    max_size=40,
)
KNOWN = [case for case in ALL if case["class"] != "unknown" and "text" in case]


@given(TEXTS, EXITS)
@settings(max_examples=60, deadline=None)
def test_any_text_has_one_verdict_and_always_the_same(text: str, ended: Exit | None) -> None:
    verdict = classify(text, ended)
    assert verdict == classify(text, ended)
    assert verdict.sentence
    if verdict.evidence is not None and verdict.evidence.line_from_end:
        assert 1 <= verdict.evidence.line_from_end <= text.count("\n") + 1


@given(st.sampled_from(KNOWN), ORDINARY)
@settings(max_examples=50, deadline=None)
def test_ordinary_lines_below_change_no_verdict(case, below: list[str]) -> None:
    text = written(case["text"])
    ended = Exit.by(case["signal"]) if "signal" in case else Exit.of(case.get("exit", 1))
    before, after = classify(text, ended), classify(text + "\n".join(below) + "\n", ended)
    assert (after.kind, after.rule) == (before.kind, before.rule)


@given(st.sampled_from(KNOWN), st.integers(1, 400))
@settings(max_examples=30, deadline=None)
def test_training_that_goes_on_never_turns_one_known_class_into_another(case, steps: int) -> None:
    text = written(case["text"])
    below = "".join(f"step {number} loss 2.0 lr 0.1\n" for number in range(steps))
    assert classify(text + below, Exit.of(1)).kind in (
        classify(text, Exit.of(1)).kind,
        Kind.UNKNOWN,
    )


@given(st.sampled_from(KNOWN), st.text("abcdefgh", min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_a_user_s_rule_that_matches_nothing_breaks_nothing(case, name: str) -> None:
    text = written(case["text"])
    mine = f"- {{name: my-{name}, class: transient, line: '§{name}§*§', says: Mine.}}"
    assert classify(text, rules=shipped().extended("mine.yaml", mine)) == classify(text)


@given(st.text("ab*", min_size=1, max_size=12), st.text("ab", max_size=30))
@settings(max_examples=100, deadline=None)
def test_a_pattern_matches_exactly_if_its_pieces_can_be_laid_in_order(
    pattern: str, line: str
) -> None:
    pieces = [piece for piece in pattern.split("*") if piece]
    if not pieces or len(pieces) > 8:
        return
    reach = {0}
    for piece in pieces:
        reach = {
            at + len(piece)
            for at in range(len(line) + 1)
            if line.startswith(piece, at) and at >= min(reach, default=len(line) + 1)
        }
    assert Pattern.of(pattern).matches(line) == bool(reach)


@pytest.mark.parametrize("piece", ["a", "ValueError: x\n", "\x1b[0;", "[rank1]: ", "*a"])
def test_time_grows_with_length_and_not_faster(piece: str) -> None:
    bomb = "- {name: bomb, class: transient, says: x, line: ['a*a*a*a*a*a*a*b', '(a+)+$', '*a*a*']}"
    rules = shipped().extended("mine.yaml", bomb)

    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        best = 9.0
        for _ in range(3):
            begin = time.perf_counter()
            classify(text, Exit.of(1), rules)
            best = min(best, time.perf_counter() - begin)
        return best

    # Eight times the text, with room for a noisy machine; a square would be 64.
    assert seconds(1 << 17) < 24 * seconds(1 << 14) + 0.05

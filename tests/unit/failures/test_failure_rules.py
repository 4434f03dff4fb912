"""The table of rules: patterns, what users may write, and the errors for mistakes."""

from pathlib import Path

import pytest

from treadle.core.errors import InvalidInputError
from treadle.failures.classifier import classify
from treadle.failures.pattern import Pattern
from treadle.failures.rules import Level, RuleTable, shipped
from treadle.failures.verdict import Kind

RULE = """\
- name: license
  class: transient
  line: ["license server * not reached"]
  says: The license server did not answer; try later.
"""


@pytest.mark.parametrize(
    ("pattern", "line", "matches"),
    [
        ("abc", "xxabcxx", True),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "c-b-a", False),
        ("aa*aa", "aaa", False),
        ("a*a", "aa", True),
        ("*end", "the end", True),
        ("(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa!", False),
        ("(a+)+$", "look: (a+)+$", True),
    ],
)
def test_a_pattern_is_literal_text_in_order(pattern: str, line: str, matches: bool) -> None:
    assert Pattern.of(pattern).matches(line) is matches
    assert str(Pattern.of("a**b*")) == "a*b"


def test_the_shipped_table_is_whole() -> None:
    table = shipped()
    names = [rule.name for rule in table.rules]
    assert len(set(names)) == len(names) >= 60
    assert {rule.kind for rule in table.rules} == set(Kind)
    for rule in table.rules:
        assert rule.sentence.endswith("."), rule.name
        assert rule.sentence[0].isupper(), rule.name
        assert rule.level in (Level.ECHO, Level.SYMPTOM, Level.DEATH, Level.ERROR, Level.CAUSE)
        if rule.kind is Kind.DETERMINISTIC:
            assert not rule.advice.retry, rule.name


def test_a_user_adds_a_rule(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(RULE)
    table = RuleTable.read(path)
    verdict = classify("license server lm1 was not reached, giving up", rules=table)
    assert (verdict.kind, verdict.rule) == (Kind.TRANSIENT, "license")
    assert len(table.rules) == len(shipped().rules) + 1


def test_a_user_replaces_or_drops_a_rule_by_its_name() -> None:
    text = "- {name: missing-key, class: transient, exception: KeyError, says: Ours.}\n"
    text += "- {name: diverged, off: true}\n"
    table = shipped().extended("mine.yaml", text)
    assert classify("KeyError: 'x'", rules=table).kind is Kind.TRANSIENT
    assert classify("Loss is nan, stopping training", rules=table).kind is Kind.UNKNOWN
    assert len(table.rules) == len(shipped().rules) - 1


def test_an_empty_file_adds_nothing() -> None:
    assert shipped().extended("mine.yaml", "# nothing\n") == shipped()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nodes: 3", "mine.yaml"),
        ("- [", "line 1"),
        ("- 3", "[0]"),
        ("- class: transient", "name"),
        (RULE.replace("line:", "lines:"), "lines"),
        (RULE + RULE, "license"),
        (RULE.replace("transient", "transcient"), "transcient"),
        (RULE.replace("transient", "resource"), "rule license: more"),
        ("- {name: a, class: unknown, says: x}", "rule a"),
        ("- {name: a, class: unknown, line: x}", "says"),
        ("- {name: a, class: unknown, says: x, line: ['***']}", "'***'"),
        ("- {name: a, class: unknown, says: x, line: 'a*b*c*d*e*f*g*h*i'}", "8 pieces"),
        ("- {name: a, class: unknown, says: x, exit: SIGFOO}", "SIGFOO"),
        ("- {name: a, class: unknown, says: x, exception: '*'}", "exception '*'"),
        ("- {name: a, class: unknown, says: x, exception: 'Key Error: x'}", "Key Error"),
        ("- {name: a, class: unknown, says: x, line: y, retry: perhaps}", "retry"),
        ("- {name: a, off: true}", "'a'"),
        ("- {name: a b, off: true}", "name"),
        ("- {name: a, class: unknown, says: x, line: [[y]]}", "line"),
        ("[" * 400, "mine.yaml"),
        ("#" * 300_000, "262,144"),
        ("".join(f"- {{name: a{n}, off: true}}\n" for n in range(501)), "501"),
        ("- {name: a, class: unknown, says: x, line: [" + "y, " * 51 + "]}", "line"),
    ],
    ids=lambda text: text[:40],
)
def test_a_mistake_is_one_sentence_that_names_it(text: str, named: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        shipped().extended("mine.yaml", text)
    message = str(caught.value)
    assert message.startswith("mine.yaml")
    assert named in message
    assert len(message.splitlines()) == 1


def test_a_file_of_rules_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot read the rules .*no.yaml: No such file"):
        RuleTable.read(tmp_path / "no.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match="it is not UTF-8 text"):
        RuleTable.read(tmp_path / "bytes.yaml")


def test_the_rules_of_the_documentation_are_rules() -> None:
    page = (Path(__file__).parents[3] / "docs" / "failures.md").read_text()
    text = page.split("```yaml\n")[1].split("```")[0]
    table = shipped().extended("failures.md", text)
    first = next(rule for rule in table.rules if rule.name == "licence-server")
    assert (first.kind, first.advice.elsewhere) == (Kind.TRANSIENT, "node")
    assert {rule.name for rule in shipped().rules} >= {"disk-full"}
    assert len(table.rules) == len(shipped().rules) + 1

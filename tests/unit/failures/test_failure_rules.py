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


MISTAKES = {
    "nodes: 3": "{} is no table of rules; expected entries such as - name: ...",
    "- [": "{} line 1 is not YAML: expected the node content, but found '<stream end>'",
    "- 3": "{} line 1: expected a rule such as - name: ...",
    "- class: transient": "{} line 1: a rule needs a name",
    RULE.replace("line:", "lines:"): (
        "{} line 3: unknown field 'lines'; did you mean line? (known: name, class, level, "
        "exception, line, exit, says, retry, elsewhere, more, off)"
    ),
    RULE + "  says: x\n": "{} line 5: says is given twice; keep one",
    RULE + RULE: "{} line 5: rule license: name is given to two rules; keep one",
    RULE.replace("transient", "transcient"): (
        "{} line 2: rule license: class is 'transcient'; did you mean transient?; expected one of "
        "deterministic, transient, resource, unknown"
    ),
    RULE.replace("transient", "resource"): (
        "{} line 1: rule license: more is required for class resource and not allowed for "
        "others: name what to raise"
    ),
    "- {name: a, class: unknown, says: x}": (
        "{} line 1: rule a: line is missing, and so are exception and exit: it never matches"
    ),
    "- {name: a, class: unknown, line: x}": "{} line 1: rule a: says is missing",
    "- {name: a, class: unknown, says: x,\n   line: ['***']}": (
        "{} line 2: rule a: line '***' holds no text to look for"
    ),
    "- {name: a, class: unknown, says: x, line: 'a*b*c*d*e*f*g*h*i'}": (
        "{} line 1: rule a: line 'a*b*c*d*e*f*g*h*i' has more than 8 pieces between its stars"
    ),
    "- {name: a, class: unknown, says: x, exit: SIGFOO}": (
        "{} line 1: rule a: exit 'SIGFOO' is no exit status; expected 1 to 255, a signal such as "
        "SIGSEGV, or one of oom-killed, preempted, time-limit, node-lost, cancelled"
    ),
    "- {name: a, class: unknown, says: x, exception: '*'}": (
        "{} line 1: rule a: exception '*' would match every exception; name a message"
    ),
    "- {name: a, class: unknown, says: x, exception: 'Key Error: x'}": (
        "{} line 1: rule a: exception 'Key Error: x' does not begin with an exception's type or *"
    ),
    "- {name: a, class: unknown, says: x, line: y, retry: perhaps}": (
        "{} line 1: rule a: retry is 'perhaps'; expected true or false"
    ),
    "- {name: a, off: true}": (
        "{} line 1: rule 'a' is switched off, but no shipped rule has that name (see treadle "
        "classify "
        "--list-rules)"
    ),
    "- {name: a b, off: true}": ("{} line 1: name is 'a b'; expected letters, digits and dashes"),
    "- {name: a, class: unknown, says: x, line: [[y]]}": (
        "{} line 1: rule a: line holds an entry that is empty or no text"
    ),
    "- {&a [*a]: 3}": (
        "{} line 1: unknown field '' (known: name, class, level, exception, line, exit, says, "
        "retry, elsewhere, more, off)"
    ),
    "[" * 5000: "{} is nested too deeply to be a table of rules",
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text[:40])
def test_a_mistake_is_one_sentence(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        shipped().extended("mine.yaml", text)
    assert str(caught.value) == MISTAKES[text].replace("{}", "mine.yaml", 1)


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="larger than 262,144 characters"):
        shipped().extended("mine.yaml", "#" * 300_000)
    with pytest.raises(InvalidInputError, match="holds 501 rules; 500 are the limit"):
        shipped().extended("mine.yaml", "- {}\n" * 501)
    many = "- {name: a, class: unknown, says: x, line: [" + "y, " * 51 + "]}"
    with pytest.raises(InvalidInputError, match="line has 51 entries; 50 are the limit"):
        shipped().extended("mine.yaml", many)


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

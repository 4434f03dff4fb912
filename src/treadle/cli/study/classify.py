"""`treadle classify`: why a job failed, from the end of its logs, and whether to retry."""

import json
from typing import Any

import click

from treadle.core.errors import InvalidInputError
from treadle.failures.classifier import classify_ranks
from treadle.failures.rules import RuleTable, shipped
from treadle.failures.tail import tail
from treadle.failures.verdict import Exit, Verdict


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1)
@click.option("--exit", "status", type=int, metavar="N", help="The job's exit status.")
@click.option(
    "--signal", "signal_name", metavar="NAME", help="The signal that ended the job: SIGKILL or 9."
)
@click.option(
    "--rules", "rules_file", metavar="FILE", help="YAML file with additional or replacement rules."
)
@click.option("--list-rules", is_flag=True, help="List the rules and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def classify(
    logs: tuple[str, ...],
    *,
    status: int | None,
    signal_name: str | None,
    rules_file: str | None,
    list_rules: bool,
    as_json: bool,
) -> None:
    """Classify a failure from the end of LOG; give one log per rank.

    The classes: deterministic (a retry fails again), transient (a retry may work), resource (a
    retry needs more of a resource), unknown.
    """
    rules = shipped() if rules_file is None else RuleTable.read(rules_file)
    if list_rules:
        click.echo(_listed(rules, as_json=as_json))
        return
    if not logs:
        raise InvalidInputError("no log given; expected treadle classify LOG, or --list-rules")
    texts = {log if log.isprintable() else ascii(log): tail(log) for log in logs}
    ended = _exit(status, signal_name)
    verdict = classify_ranks(texts, None if ended is None else {"": ended}, rules)
    click.echo(json.dumps(facts(verdict), indent=1) if as_json else _text(verdict))


def facts(verdict: Verdict) -> dict[str, Any]:
    """The verdict as a JSON object."""
    evidence = verdict.evidence
    return {
        "class": str(verdict.kind),
        "rule": verdict.rule,
        "sentence": verdict.sentence,
        "evidence": None
        if evidence is None
        else {
            "log": evidence.source,
            "line_from_end": evidence.line_from_end,
            "text": evidence.text,
        },
        "advice": {
            "retry": verdict.advice.retry,
            "elsewhere": verdict.advice.elsewhere,
            "more": verdict.advice.more,
        },
    }


def _text(verdict: Verdict) -> str:
    lines = [f"{verdict.kind}: {verdict.rule}", f"  {verdict.sentence}"]
    evidence = verdict.evidence
    if evidence is not None:
        where = "exit"
        if evidence.line_from_end:
            last = evidence.line_from_end == 1
            number = "last line" if last else f"line {evidence.line_from_end} from the end"
            where = f"{evidence.source}, {number}"
        lines.append(f"  evidence ({where}): {evidence.text}")
    lines.append(f"  advice: {verdict.advice}")
    return "\n".join(lines)


def _exit(status: int | None, signal_name: str | None) -> Exit | None:
    if status is not None and signal_name is not None:
        raise InvalidInputError("--exit and --signal cannot be combined")
    if status is not None:
        if not -64 <= status <= 255:
            raise InvalidInputError(f"--exit is {status}; expected 0 to 255, or -N for signal N")
        return Exit.of(status)
    return None if signal_name is None else Exit.by(signal_name)


def _listed(rules: RuleTable, *, as_json: bool) -> str:
    if as_json:
        rows = [
            {
                "name": rule.name,
                "class": str(rule.kind),
                "level": rule.level.name.lower(),
                "sentence": rule.sentence,
                "retry": rule.advice.retry,
                "elsewhere": rule.advice.elsewhere,
                "more": rule.advice.more,
            }
            for rule in rules.rules
        ]
        return json.dumps(rows, indent=1)
    width = max((len(rule.name) for rule in rules.rules), default=0)
    return "\n".join(
        f"{rule.name:<{width}}  {rule.kind:<13}  {rule.advice}" for rule in rules.rules
    )

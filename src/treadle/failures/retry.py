"""The retry rule that a scheduler uses: by failure class and by past failures.

A failure is identified by its reason: live, the name of the rule that matched the log; in a
simulation, a reason of the Philly study. `FailureHistory` has the rest: the earlier failures of the
job and of its owner, and the suspicion scores of nodes.
"""

from collections.abc import Callable, Mapping

from treadle.core.retry import Answer, Failure
from treadle.failures.failure_history import FailureHistory, Patience
from treadle.failures.rules import RuleTable
from treadle.failures.verdict import Advice, Kind, Verdict

UNKNOWN = Verdict(Kind.UNKNOWN, "unknown", "no rule knows the reason", Advice(retry=True))


class Classified:
    """A retry rule with state: call it once for each failure, in order."""

    def __init__(
        self,
        verdict: Callable[[str], Verdict],
        patience: Patience | None = None,
        memory: FailureHistory | None = None,
    ) -> None:
        self._verdict = verdict
        self._patience = patience or Patience()
        self.memory = memory or FailureHistory()

    def __call__(self, failure: Failure) -> Answer:
        spec, at = failure.spec, failure.at
        verdict = self._verdict(failure.reason)
        where = {"nodes": failure.nodes, "devices": failure.devices}
        self.memory.failed(spec.id, verdict, at=at, user=spec.owner, **where)
        found = self.memory.advise(
            spec.id, verdict, at=at, user=spec.owner, patience=self._patience
        )
        retry = found.again
        if verdict.kind is Kind.UNKNOWN and verdict.advice.retry and spec.retry_unknown is not None:
            retry = spec.retry_unknown
        return found._replace(again=retry and failure.number <= spec.retries)


# Failures to launch, of limits, and of our own processes, which leave no log.
LAUNCHING: Mapping[str, Verdict] = {
    "not-launched": Verdict(
        Kind.DETERMINISTIC,
        "not-launched",
        "The command could not be executed.",
        Advice(retry=False),
    ),
    "engine-error": Verdict(
        Kind.TRANSIENT,
        "engine-error",
        "The engine could not carry out the order to launch the job.",
        Advice(retry=True),
    ),
    "memory-limit": Verdict(
        Kind.RESOURCE,
        "memory-limit",
        "The job used more host memory than it asked for; ask for more with --memory.",
        Advice(retry=False, more="host memory"),
    ),
    "supervisor-lost": Verdict(
        Kind.TRANSIENT,
        "supervisor-lost",
        "The process of Treadle that supervised it was killed, or the machine was restarted.",
        Advice(retry=True),
    ),
    "agent-away": Verdict(
        Kind.TRANSIENT,
        "agent-away",
        "Its node had no contact for as long as --failover says.",
        Advice(retry=True),
    ),
}


def live_verdicts(table: RuleTable) -> Callable[[str], Verdict]:
    """Verdicts for the reasons that a live controller records."""
    ruled = by_rule(table)
    return lambda reason: LAUNCHING.get(reason) or ruled(reason)


def by_rule(table: RuleTable) -> Callable[[str], Verdict]:
    """Verdicts for reasons that are rule names of this table."""
    verdicts = {
        rule.name: Verdict(rule.kind, rule.name, rule.sentence, rule.advice) for rule in table.rules
    }
    return lambda reason: verdicts.get(reason, UNKNOWN)

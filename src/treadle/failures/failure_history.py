"""Past failures of each job, user and node, and the decision to retry that follows from them.

Pure and without a clock: every call carries its time. Everything is bounded: the least recently
used jobs, users and places are dropped first.

A place (a node, or a device on it) has a suspicion score that halves every `half_life_s`. A failure
whose rule says to go elsewhere adds 1, divided among the places where the job ran; any other
transient failure adds 0.25. If a job repeats the same failure, the job is the more likely cause, so
each repetition adds less. A place with a score of 0.5 or more is avoided: one clear failure keeps
jobs away for one half-life.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from treadle.core.errors import InvalidInputError
from treadle.core.retry import Answer
from treadle.core.value import value
from treadle.failures.verdict import Kind, Verdict

Key = TypeVar("Key")
Row = TypeVar("Row")

_RULES_MAX = 16


@value
class Patience:
    """Retry by failure class: how many failures of each class a job may have."""

    transient: int = 5
    resource: int = 2
    unknown: int = 1
    deterministic: int = 0
    repeats: int = 3  # This many failures of one rule in a row are not transient.
    wait_s: float = 30.0  # Doubled with each transient failure in a row ...
    wait_max_s: float = 1800.0  # ... up to this.

    def allowed(self, kind: Kind) -> int:
        return {
            Kind.TRANSIENT: self.transient,
            Kind.RESOURCE: self.resource,
            Kind.UNKNOWN: self.unknown,
            Kind.DETERMINISTIC: self.deterministic,
        }[kind]


class FailureHistory:
    """Record facts with `failed`; ask with `advise`, `score` and `avoid`."""

    def __init__(
        self, *, half_life_s: float = 6 * 3600.0, limit: int = 10_000, threshold: float = 0.5
    ) -> None:
        if not half_life_s > 0 or limit < 1 or not threshold > 0:
            raise InvalidInputError(
                "a failure history needs a half-life, a limit and a threshold above 0"
            )
        self.half_life_s = half_life_s
        self.threshold = threshold
        self._jobs: _Bounded[str, _Past] = _Bounded(limit)
        self._users: _Bounded[str, Counter[Kind]] = _Bounded(limit)
        self._places: _Bounded[str, tuple[float, float]] = _Bounded(limit)

    def saved(self) -> dict[str, object]:
        """The whole state, as plain values for `restore`."""
        return {
            "jobs": [
                [name, _counts(past.kinds), _counts(past.rules), past.last, past.in_a_row]
                for name, past in self._jobs.items()
            ],
            "users": [[name, _counts(counts)] for name, counts in self._users.items()],
            "places": [[name, *row] for name, row in self._places.items()],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Replace the state with one that `saved` returned."""
        for name, kinds, rules, last, in_a_row in saved["jobs"]:
            past = _Past()
            past.kinds = Counter({Kind(kind): count for kind, count in kinds.items()})
            past.rules = Counter(rules)
            past.last, past.in_a_row = last, in_a_row
            self._jobs.put(name, past)
        for name, counts in saved["users"]:
            self._users.put(name, Counter({Kind(kind): n for kind, n in counts.items()}))
        for name, score, since in saved["places"]:
            self._places.put(name, (score, since))

    def failed(
        self,
        job: str,
        verdict: Verdict,
        *,
        at: float,
        user: str = "",
        nodes: Sequence[str] = (),
        devices: Sequence[str] = (),
    ) -> None:
        """Record that a job failed at `at` on these nodes and, if known, these devices."""
        past = self._jobs.get(job) or _Past()
        before = past.rules[verdict.rule]
        past.add(verdict)
        self._jobs.put(job, past)
        if user:
            counts = self._users.get(user) or Counter()
            counts[verdict.kind] += 1
            self._users.put(user, counts)
        places = devices if verdict.advice.elsewhere == "device" and devices else nodes
        self._blame(places, _weight(verdict) / (1 + before), at)

    def score(self, place: str, at: float) -> float:
        """The suspicion score of a node or device at a moment."""
        score, since = self._places.get(place) or (0.0, at)
        return float(score * 0.5 ** (max(0.0, at - since) / self.half_life_s))

    def avoid(self, at: float) -> tuple[str, ...]:
        """The places whose score is too high, the worst first."""
        scores = {place: self.score(place, at) for place in self._places}
        bad = [place for place, score in scores.items() if score >= self.threshold]
        return tuple(sorted(bad, key=lambda place: (-scores[place], place)))

    def advise(
        self, job: str, verdict: Verdict, *, at: float, user: str = "", patience: Patience
    ) -> Answer:
        """What to do after the failure that was last recorded with `failed`."""
        past = self._jobs.get(job) or _Past()
        if self._is_hopeless(past, verdict, user, patience):
            return Answer(again=False)
        transient = verdict.kind is Kind.TRANSIENT
        wait_s = patience.wait_s * 2.0 ** min(past.in_a_row - 1, 20) if transient else 0.0
        return Answer(again=True, wait_s=min(wait_s, patience.wait_max_s), avoid=self.avoid(at))

    def _is_hopeless(self, past: "_Past", verdict: Verdict, user: str, patience: Patience) -> bool:
        """Whether a retry would fail again, or needs more of something than can be given."""
        kind, advice = verdict.kind, verdict.advice
        if not advice.retry or advice.more or past.kinds[kind] > patience.allowed(kind):
            return True
        if kind is not Kind.RESOURCE and past.in_a_row >= patience.repeats:
            return True
        return kind is Kind.UNKNOWN and self._careless(user)

    def _careless(self, user: str) -> bool:
        """Whether at least four in five of a user's classified failures, and five, would repeat."""
        counts = self._users.get(user) if user else None
        if counts is None:
            return False
        explained = counts.total() - counts[Kind.UNKNOWN]
        return explained >= 5 and counts[Kind.DETERMINISTIC] >= 0.8 * explained

    def _blame(self, places: Sequence[str], weight: float, at: float) -> None:
        if weight == 0.0:
            return
        for place in places:
            score = self.score(place, at)
            self._places.put(place, (score + weight / len(places), at))


def _counts(counter: Mapping[Any, int]) -> dict[str, int]:
    return {str(key): count for key, count in counter.items()}


def _weight(verdict: Verdict) -> float:
    if verdict.kind is not Kind.TRANSIENT:
        return 0.0
    return 1.0 if verdict.advice.elsewhere else 0.25


class _Past:
    """The failures of one job."""

    def __init__(self) -> None:
        self.kinds: Counter[Kind] = Counter()
        self.rules: Counter[str] = Counter()  # Of the last few rules only.
        self.last = ""
        self.in_a_row = 0

    def add(self, verdict: Verdict) -> None:
        self.kinds[verdict.kind] += 1
        self.in_a_row = self.in_a_row + 1 if verdict.rule == self.last else 1
        self.last = verdict.rule
        if len(self.rules) >= _RULES_MAX and verdict.rule not in self.rules:
            self.rules.clear()
        self.rules[verdict.rule] += 1


class _Bounded(Generic[Key, Row]):
    """A table that drops its least recently written row when it is full."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows: OrderedDict[Key, Row] = OrderedDict()

    def get(self, key: Key) -> Row | None:
        return self._rows.get(key)

    def put(self, key: Key, row: Row) -> None:
        self._rows[key] = row
        self._rows.move_to_end(key)
        if len(self._rows) > self._limit:
            self._rows.popitem(last=False)

    def items(self) -> Iterable[tuple[Key, Row]]:
        """Rows, the least recently written first."""
        return self._rows.items()

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

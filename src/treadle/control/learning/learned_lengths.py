"""What was learned from jobs that ran, for those that are submitted later.

The learner is `treadle.models.learning`, which the simulator runs as well. This module is its
adapter: kinds from command lines, stored rows in and out, and a job's expected length and profile.
A unit of work is a whole job here, so what is learned is how long it takes at each size.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from treadle.core.job import Profile
from treadle.models.learning.kinds import by_command
from treadle.models.learning.learner import Learner
from treadle.models.learning.observations import Observation
from treadle.models.learning.rules import LIVE, Rules
from treadle.store.rows import ProfileRow

UNKNOWN_S = 3600.0  # how long a job is assumed to take of which nothing is known
PROFILES_MAX = LIVE.kinds_max
_SOURCES = ("its own past", "jobs like it")  # by which of the keys was seen


@dataclass(frozen=True, slots=True)
class Expectation:
    """How long a job is expected to take, how it scales, and why we think so."""

    length_s: float
    profile: Profile
    source: str  # "its own past", "jobs like it", "its user", "nothing"


@dataclass(frozen=True, slots=True)
class _Body:
    """The body of a stored row."""

    by_size: dict[int, list[float]]


class Profiles:
    """Profiles by kind of job. Changes since they were last asked for are to be written."""

    def __init__(self, rows: Iterable[ProfileRow] = (), rules: Rules = LIVE) -> None:
        """`rows`: what was stored, the one that changed last at the end."""
        stored = ((row.key, msgspec.json.decode(row.body, type=_Body).by_size) for row in rows)
        self._learner = Learner(rules, stored)

    def expect(
        self,
        keys: Sequence[str],
        asked: int,
        *,
        model: str,
        estimate_s: float | None,
        sizes: Sequence[int] = (),
    ) -> Expectation:
        """What to expect of a job with these keys, the closest first, that may have these sizes."""
        serial = self._learner.rules.serial
        known = self._learner.closest(keys)
        if known is not None:
            curve = known.speeds.curve
            carried = curve.carried((asked, *sizes))
            profile = Profile(size=asked, serial=serial, model=model, curve=carried)
            source = _SOURCES[keys.index(known.kind)]
            return Expectation(curve.seconds(asked, asked), profile, source)
        profile = Profile(size=asked, serial=serial, model=model)
        if estimate_s is not None:
            return Expectation(estimate_s, profile, "its user")
        return Expectation(UNKNOWN_S, profile, "nothing")

    def observe(self, keys: Sequence[str], seen: Observation | None) -> None:
        """Take in what an attempt said of the whole job; None if it said nothing."""
        if seen is not None:
            self._learner.observe(keys, seen)

    def learn(self, keys: Sequence[str], size: int, length_s: float) -> None:
        """The whole job took that long at that size, or would have."""
        self.observe(keys, Observation(size, length_s))

    def changes(self, at: float) -> list[ProfileRow]:
        """Rows to write, each change once."""
        return [
            ProfileRow(kind, msgspec.json.encode(_Body(by_size)), at)
            for kind, by_size in self._learner.changes()
        ]


def keys_of(owner: str, model: str, command: Sequence[str]) -> tuple[str, ...]:
    """The keys of profiles that a job learns from, and teaches: the closest first."""
    return by_command(owner, model, command)

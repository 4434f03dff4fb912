"""What was learned from jobs that ran, for those that are submitted later.

The learner is `treadle.models.learning.knowledge`, which the simulator runs as well. This module is
its adapter: kinds from command lines, stored rows in and out, a job's expected length and profile.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from treadle.core.job import Profile
from treadle.models.learning.expectation import Expectation as Learned
from treadle.models.learning.history import History
from treadle.models.learning.kinds import Source, by_command
from treadle.models.learning.knowledge import KINDS_MAX, Knowledge
from treadle.models.learning.observations import Observation
from treadle.models.learning.outcome import Outcome
from treadle.store.rows import ProfileRow

PROFILES_MAX = KINDS_MAX
UNKNOWN_S = 3600.0  # how long a job is assumed to take of which nothing close was seen
_SHOWN = {
    Source.SAME_COMMAND: "its own past",
    Source.ALIKE: "jobs like it",
    Source.SAME_SCRIPT: "jobs like it",
    Source.ITS_USER: "its user",
}
_CLOSE = (Source.SAME_COMMAND, Source.ALIKE, Source.SAME_SCRIPT)


@dataclass(frozen=True, slots=True)
class Expectation:
    """How long a job is expected to take, how it scales, and why we think so."""

    length_s: float
    profile: Profile
    source: str  # "its own past", "jobs like it", "its user", "nothing"
    learned: Learned  # the whole answer: the distribution, its doubt, steps


class Profiles:
    """Profiles by kind of job. Changes since they were last asked for are to be written."""

    def __init__(self, rows: Iterable[ProfileRow] = ()) -> None:
        """`rows`: what was stored, the one that changed last at the end."""
        self.knowledge = Knowledge((row.key, history_of(row.body)) for row in rows)

    def expect(
        self,
        keys: Sequence[str],
        asked: int,
        *,
        model: str,
        estimate_s: float | None,
        sizes: Sequence[int] = (),
        numbers: tuple[float, ...] = (),
    ) -> Expectation:
        """What to expect of a job with these keys, the closest first, that may have these sizes."""
        known = self.knowledge.expect(
            keys, asked, sizes=sizes, model=model, estimate_s=estimate_s, numbers=numbers
        )
        source = _SHOWN.get(known.source, "nothing")
        length_s = UNKNOWN_S if estimate_s is None else estimate_s
        if source == "nothing" and estimate_s is not None:
            source = "its user"
        if known.source in _CLOSE:
            # The median while one number is all that is asked for: a mean is led by its tail.
            length_s = known.length.quantile(0.5)
        return Expectation(length_s, known.profile, source, known)

    def observe(self, keys: Sequence[str], seen: Observation | None) -> None:
        """Take in what an attempt said of the whole job; None if it said nothing."""
        if seen is not None:
            self.knowledge.observe(
                keys, Outcome(seen.size, seen.seconds, whole=True, shared=seen.shared)
            )

    def learn(self, keys: Sequence[str], size: int, length_s: float) -> None:
        """The whole job took that long at that size, or would have."""
        self.observe(keys, Observation(size, length_s))

    def changes(self, at: float) -> list[ProfileRow]:
        """Rows to write, each change once."""
        return [
            ProfileRow(kind, msgspec.json.encode(history), at)
            for kind, history in self.knowledge.changes()
        ]


def history_of(body: bytes) -> History:
    """A stored row; rows of earlier versions have lengths by size and nothing else."""
    history = msgspec.json.decode(body, type=History)
    if not history.runs and history.by_size:
        for size, lengths in history.by_size.items():
            history.load_lengths(size, lengths)
    return history


def keys_of(owner: str, model: str, command: Sequence[str]) -> tuple[str, ...]:
    """The keys of profiles that a job learns from, and teaches: the closest first."""
    return by_command(owner, model, command)


__all__ = ["PROFILES_MAX", "Expectation", "Profiles", "Source", "history_of", "keys_of"]

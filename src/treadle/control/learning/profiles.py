"""What was learned from jobs that ran, for those that are submitted later.

A job's work is counted in seconds at the size it asks for. Jobs alike are told by who submits what:
the same command of the same user first, then the same program of the same user with the same model
name. Of each we keep how long the whole job took, or would have taken, at each size it ran at; that
gives both the length of the next one and how it speeds up with devices.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import msgspec

from treadle.core.job import Profile
from treadle.models.lengths import SERIAL, Lengths
from treadle.store.rows import ProfileRow

UNKNOWN_S = 3600.0  # a job of which nobody knows anything
PROFILES_MAX = 20_000
_INTERPRETERS = (
    "python",
    "bash",
    "sh",
    "torchrun",
    "accelerate",
    "deepspeed",
    "env",
    "uv",
    "nohup",
)


@dataclass(frozen=True, slots=True)
class Expectation:
    """How long a job is taken to be, how it scales, and why we think so."""

    length_s: float
    profile: Profile
    source: str  # "its own past", "jobs like it", "its user", "nothing"


class Profiles:
    """By kind of job; what changed since it was last asked is to be written."""

    def __init__(self, rows: Iterable[ProfileRow] = ()) -> None:
        self._known: dict[str, Lengths] = {
            row.key: msgspec.json.decode(row.body, type=Lengths) for row in rows
        }
        self._changed: dict[str, None] = {}

    def expect(
        self, keys: Sequence[str], asked: int, *, model: str, estimate_s: float | None
    ) -> Expectation:
        """What is known of jobs under these keys, the most telling first."""
        sources = ("its own past", "jobs like it")
        for key, source in zip(keys, sources, strict=True):
            known = self._known.get(key)
            if known is not None:
                curve = known.curve()
                profile = Profile(size=asked, serial=SERIAL, model=model, curve=curve)
                return Expectation(known.length_s(asked), profile, source)
        profile = Profile(size=asked, serial=SERIAL, model=model)
        if estimate_s is not None:
            return Expectation(estimate_s, profile, "its user")
        return Expectation(UNKNOWN_S, profile, "nothing")

    def learn(self, keys: Sequence[str], size: int, length_s: float) -> None:
        if not length_s > 0:
            return
        for key in keys:
            known = self._known.pop(key, None) or Lengths()  # The one changed last stands last.
            known.add(size, length_s)
            self._known[key] = known
            self._changed[key] = None
        while len(self._known) > PROFILES_MAX:
            del self._known[next(iter(self._known))]

    def changes(self, at: float) -> list[ProfileRow]:
        """Rows to write; asked once for each change."""
        rows = [
            ProfileRow(key, msgspec.json.encode(self._known[key]), at)
            for key in self._changed
            if key in self._known
        ]
        self._changed = {}
        return rows


def keys_of(owner: str, model: str, command: Sequence[str]) -> tuple[str, str]:
    """The same command, and the same program, of one user and model."""
    whole = hashlib.sha256("\0".join(command).encode()).hexdigest()[:24]
    return (f"{owner}/{model}/={whole}", f"{owner}/{model}/{_program(command)}")


def _program(command: Sequence[str]) -> str:
    """What is run: the script behind an interpreter, or the program itself."""
    words = [word for word in command if not word.startswith("-")]
    names = [PurePosixPath(word).name for word in words[:4]]
    if not names:
        return ""
    for name in names:
        if not name.startswith(_INTERPRETERS) and "=" not in name:
            return name[:80]
    return names[0][:80]

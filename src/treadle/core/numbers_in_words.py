"""The numbers of a reason as words: how devices, jobs and lengths of time are called in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from treadle.core.reasons import Number
from treadle.core.wording import listed, named_jobs, several, span

NAMED_MAX = 3  # jobs or nodes in a sentence

Line = tuple[str, str]  # a label and one fact


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of one reason, with their types."""

    of: Mapping[str, Number]
    unit: str  # what a device is called, such as GPU or slot
    names: Mapping[str, str]  # of jobs that have one

    def number(self, name: str) -> float:
        found = self.of.get(name, 0)
        return found if isinstance(found, int | float) else 0

    def count(self, name: str) -> int:
        return int(self.number(name))

    def text(self, name: str, before: str = "") -> str:
        """Empty if there is none; else behind these words."""
        found = str(self.of.get(name, ""))
        return f"{before}{found}" if found else ""

    def all(self, name: str) -> tuple[str, ...]:
        found = self.of.get(name, ())
        return tuple(map(str, found)) if isinstance(found, tuple) else (str(found),)

    def rows(self, name: str) -> list[tuple[Number, ...]]:
        found = self.of.get(name, ())
        return [row for row in found if isinstance(row, tuple)] if isinstance(found, tuple) else []

    def devices(self, name: str) -> str:
        """1 GPU, 2 GPUs."""
        return several(self.count(name), self.unit)

    def some(self, name: str) -> str:
        """A GPU, 2 GPUs."""
        return f"a {self.unit}" if self.count(name) == 1 else self.devices(name)

    def span(self, name: str) -> str:
        return span(self.number(name))

    def known(self, name: str) -> bool:
        """Whether a moment or a length of time is known."""
        return name in self.of and isfinite(self.number(name))

    def job(self, name: str, before: str = "") -> str:
        """By its name where it has one; empty if there is none, else behind these words."""
        identity = self.text(name)
        return before + (self.names.get(identity) or f"job {identity}") if identity else ""

    def jobs(self, name: str, before: str = "") -> str:
        found = self.all(name)
        if len(found) == 1:
            return before + (self.names.get(found[0]) or f"job {found[0]}")
        shown = [self.names.get(each, each) for each in found]
        return before + named_jobs(shown, NAMED_MAX) if found else ""

    def listed(self, name: str) -> str:
        return listed(self.all(name), NAMED_MAX)

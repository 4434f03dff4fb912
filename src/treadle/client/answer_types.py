"""Types of answers by name, imported when an answer is read.

The API has a hundred types, which take 70 ms to load; a command needs a few of them.
"""

from dataclasses import dataclass
from importlib import import_module

JOBS = "treadle.wire.jobs"
MACHINE = "treadle.wire.machine"
NODES = "treadle.core.machine"
RETENTION = "treadle.wire.retention"
WHAT_IF = "treadle.wire.what_if"


@dataclass(frozen=True, slots=True)
class Named:
    module: str
    name: str
    many: bool = False  # a tuple of them comes back

    def resolve(self) -> object:
        found: type = getattr(import_module(self.module), self.name)
        return tuple[found, ...] if self.many else found  # type: ignore[valid-type]


def one(module: str, name: str) -> Named:
    return Named(module, name)


def many(module: str, name: str) -> Named:
    return Named(module, name, many=True)

"""Why a job waits, or has what it has: a code and its numbers, never a sentence.

Sentences are made in one place (sentences.py), from these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Number = float | str | bool | tuple["Number", ...]

_NONE: Mapping[str, Number] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reason:
    """What bound a job."""

    code: str
    numbers: Mapping[str, Number] = field(default_factory=lambda: _NONE)

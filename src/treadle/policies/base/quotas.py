"""Numbers by tenant, as a user writes them, and what is left of a quota during a decision.

There is one syntax for all policies: `a:32/b:16`. Text of the form `a:32:b:16` means the same.
"""

from collections.abc import Mapping
from math import isfinite

from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec

Quotas = Mapping[str, float]  # devices by tenant; a tenant that is not named has none
_NOT_IN_A_NAME = frozenset(",;=")  # they look like the end of an entry


def by_tenant(policy: str, text: str) -> dict[str, float]:
    """Numbers of 0 or more by tenant; an empty name stands for jobs without a tenant."""
    found: dict[str, float] = {}
    for tenant, number in _entries(policy, text):
        if tenant in found:
            raise InvalidInputError(f"{policy} quotas name tenant {tenant!r} twice: {text!r}")
        found[tenant] = _number(policy, text, number)
    return found


def quotas(policy: str, text: str) -> Quotas | None:
    """Devices by tenant; None if no quotas are given, so that every tenant may use all devices."""
    if not text:
        return None
    found = by_tenant(policy, text)
    for tenant, devices in found.items():
        if not devices.is_integer():
            raise InvalidInputError(
                f"{policy} quotas are whole numbers of devices; tenant {tenant!r} has {devices:g}"
            )
    return found


def _entries(policy: str, text: str) -> list[tuple[str, str]]:
    words = [[word.strip() for word in entry.split(":")] for entry in text.split("/")]
    if len(words) == 1:  # Perhaps a:32:b:16.
        words = [words[0][at : at + 2] for at in range(0, len(words[0]), 2)]
    entries = [(entry[0], entry[1]) for entry in words if len(entry) == 2]
    if len(entries) < len(words) or any(_NOT_IN_A_NAME & set(name) for name, _ in entries):
        raise _badly_written(policy, text)
    return entries


def _number(policy: str, text: str, word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        raise _badly_written(policy, text) from None
    if not (word.isascii() and "_" not in word and isfinite(number) and number >= 0):
        raise _badly_written(policy, text)
    return number


def _badly_written(policy: str, text: str) -> InvalidInputError:
    return InvalidInputError(f"{policy} quotas are written a:32/b:16, not {text!r}")


class Left:
    """What is left of each tenant's quota, or of the whole cluster if there are no quotas."""

    def __init__(self, given: Quotas | None, supply: float) -> None:
        self._shared = given is None
        self._left = {"": float(supply)} if given is None else dict(given)

    def of(self, spec: JobSpec) -> float:
        return self._left.get(self._name(spec), 0.0)

    def use(self, spec: JobSpec, devices: float) -> None:
        name = self._name(spec)
        self._left[name] = self._left.get(name, 0.0) - devices

    def _name(self, spec: JobSpec) -> str:
        return "" if self._shared else spec.tenant

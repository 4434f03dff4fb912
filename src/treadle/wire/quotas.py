"""Numbers by tenant, as users write them.

There is one syntax for all policies: `a:32/b:16`. Text of the form `a:32:b:16` means the same.
"""

from collections.abc import Mapping
from math import isfinite

from treadle.core.errors import InvalidInputError

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

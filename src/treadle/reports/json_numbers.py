"""Numbers for JSON: a number that is not finite becomes null, never NaN or Infinity."""

from collections.abc import Mapping
from math import isfinite


def finite(value: object) -> object:
    """The same value with None for each number that is not finite."""
    match value:
        case float():
            return value if isfinite(value) else None
        case Mapping():
            return {key: finite(part) for key, part in value.items()}
        case list() | tuple():
            return [finite(part) for part in value]
        case _:
            return value

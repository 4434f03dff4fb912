"""Values of the API's types for tests that care for a few of their fields only."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Value = TypeVar("Value")


def blank(kind: type[Value], **given: object) -> Value:
    """A value with these fields; of the others, those without a default are empty."""
    hints = get_type_hints(kind)
    lacking = [each for each in fields(kind) if each.default is each.default_factory is MISSING]  # type: ignore[arg-type]
    return kind(**{each.name: _empty(hints[each.name]) for each in lacking} | given)


def _empty(hint: Any) -> object:
    if NoneType in get_args(hint):
        return None
    if get_origin(hint) in (tuple, dict):
        return get_origin(hint)()
    if get_origin(hint) is Mapping:
        return {}
    if isinstance(hint, type) and is_dataclass(hint):
        return blank(hint)
    return next(iter(hint)) if issubclass(hint, Enum) else hint()

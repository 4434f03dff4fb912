"""Parameters as users write them behind a name: `tiresias?limits=3250:7200&promote=8`.

They are the keyword-only parameters of what makes the named thing, with their types and defaults. A
name that Python keeps for itself ends in an underscore there and not for the user.
"""

from collections.abc import Callable
from inspect import Parameter, signature
from math import inf, isfinite

from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean


def parameters(make: Callable[..., object]) -> dict[str, Parameter]:
    """What a user may set, by name."""
    return {
        name.removesuffix("_"): parameter
        for name, parameter in signature(make, eval_str=True).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY
    }


def default_text(parameter: Parameter) -> str:
    """A parameter's default as a user would write it."""
    default = parameter.default
    if isinstance(default, bool):
        return "on" if default else "off"
    if isinstance(default, tuple):
        return ":".join(f"{part:g}" for part in default)
    return f"{default:g}" if isinstance(default, float) else str(default)


def read_parameters(name: str, make: Callable[..., object], query: str) -> dict[str, object]:
    """What a user set: `key=value&...`, as keyword arguments. name: of what takes it."""
    if not query:
        return {}
    known = parameters(make)
    values: dict[str, object] = {}
    for pair in query.split("&"):
        key, equals, value = pair.partition("=")
        if key not in known:
            hint = did_you_mean(key, known)
            offer = f"it takes {', '.join(known)}" if known else "it takes none"
            raise InvalidInputError(f"{name} has no parameter {key!r} ({offer}){hint}")
        if not equals:
            raise InvalidInputError(f"{name} needs a value for {key}: write {key}=VALUE")
        if known[key].name in values:
            raise InvalidInputError(f"{name} is given {key} twice; once is enough")
        values[known[key].name] = _value(name, known[key], value)
    return values


def _value(name: str, parameter: Parameter, text: str) -> object:
    """A parameter's text as the type that its default has; lists are written a:b:c."""
    default = parameter.default
    try:
        if isinstance(default, bool):
            return {"on": True, "true": True, "off": False, "false": False}[text.lower()]
        if isinstance(default, int):
            return int(text)
        if isinstance(default, float):
            return _number(text, endless=default == inf)
        if isinstance(default, tuple):
            return tuple(_number(part) for part in text.split(":"))
    except (ValueError, KeyError):
        endless = "a number, or inf" if default == inf else "a finite number"
        expected = {bool: "on or off", int: "a whole number", float: endless}.get(
            type(default), "finite numbers as a:b:c"
        )
        raise InvalidInputError(
            f"{name} parameter {parameter.name.removesuffix('_')} takes {expected}, not {text!r}"
        ) from None
    return text


def _number(text: str, *, endless: bool = False) -> float:
    """endless: inf is a value, because it is the default, which switches something off."""
    value = float(text)
    if not isfinite(value) and not (endless and value == inf):
        raise ValueError(text)
    return value

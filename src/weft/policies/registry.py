"""The table of policies by name, and how a name with parameters becomes a policy.

A policy is made by a factory `make(placement, belief, *, parameter=default, ...)`. The first line
of its docstring is what `weft policies` prints; its keyword-only parameters, with their types and
defaults, are what a user may set: `tiresias?limits=3250:7200&promote=8`. Third parties add theirs
through the entry-point group `weft.policies`; docs/add-a-policy.md shows how.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from inspect import Parameter, signature
from math import isnan
from typing import TYPE_CHECKING

from weft.core.errors import InvalidInputError, PolicyError, WeftError
from weft.core.ports import InterleavingModel, Policy
from weft.policies.placement import Placement

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

Factory = Callable[..., Policy]

# Imported on use, so that naming one policy does not load all.
BUILT_IN: Mapping[str, str] = {
    "fifo": "weft.policies.orders:fifo",
    "backfill": "weft.policies.orders:backfill",
    "sjf": "weft.policies.orders:sjf",
    "srtf": "weft.policies.orders:srtf",
    "srsf": "weft.policies.orders:srsf",
    "las": "weft.policies.orders:las",
    "tiresias": "weft.policies.tiresias:tiresias",
    "max-min": "weft.policies.maxmin:max_min",
    "optimus": "weft.policies.optimus:optimus",
    "themis": "weft.policies.themis:themis",
    "altruistic": "weft.policies.altruistic:altruistic",
    "afs": "weft.policies.afs:afs",
    "afs-p": "weft.policies.afs_blind:afs_p",
    "antman": "weft.policies.antman:antman",
    "muri-s": "weft.policies.muri:muri_s",
    "muri-l": "weft.policies.muri:muri_l",
}

ENTRY_POINTS = "weft.policies"


def policy(text: str, placement: Placement, belief: InterleavingModel) -> Policy:
    """The policy of `name` or `name?parameter=value&...`."""
    name, _, query = text.partition("?")
    make = factory(name)
    parameters = _parameters(name, make, query)
    try:
        return make(placement, belief, **parameters)
    except WeftError:
        raise
    except Exception as error:
        raise PolicyError(f"policy {name} cannot be made: {error!r}") from error


def factory(name: str) -> Factory:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return getattr(import_module(module), attribute)  # type: ignore[no-any-return]
    for entry in _third_parties():
        if entry.name == name:
            return _load(entry)
    near = get_close_matches(name, names(), n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InvalidInputError(f"there is no policy {name!r}{hint} (`weft policies` lists them all)")


def names() -> list[str]:
    """Built-in policies in the table's order, then third parties' by name."""
    others = {entry.name for entry in _third_parties()} - set(BUILT_IN)
    return [*BUILT_IN, *sorted(others)]


def summary(name: str) -> str:
    """One line about a policy."""
    return (factory(name).__doc__ or "(no description)").strip().splitlines()[0]


def parameters(make: Factory) -> dict[str, Parameter]:
    """What a user may set, by name."""
    return {
        name: parameter
        for name, parameter in signature(make, eval_str=True).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY
    }


def _load(entry: "EntryPoint") -> Factory:
    """A third party's factory; whatever goes wrong there is told in one sentence."""
    try:
        return entry.load()  # type: ignore[no-any-return]
    except Exception as error:
        raise PolicyError(
            f"policy {entry.name} ({entry.value}) cannot be loaded: {error!r}"
        ) from error


def _third_parties() -> "EntryPoints":
    # Imported on use: it costs a tenth of the start of a run that names a built-in policy.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group=ENTRY_POINTS)


def _parameters(name: str, make: Factory, query: str) -> dict[str, object]:
    if not query:
        return {}
    known = parameters(make)
    values: dict[str, object] = {}
    for pair in query.split("&"):
        key, equals, value = pair.partition("=")
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            offer = f"it takes {', '.join(known)}" if known else "it takes none"
            raise InvalidInputError(f"policy {name} has no parameter {key!r} ({offer}){hint}")
        if not equals:
            raise InvalidInputError(f"policy {name} needs a value for {key}: write {key}=VALUE")
        values[key] = _value(name, known[key], value)
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
            return _number(text)
        if isinstance(default, tuple):
            return tuple(_number(part) for part in text.split(":"))
    except (ValueError, KeyError):
        expected = {bool: "on or off", int: "a whole number", float: "a number"}.get(
            type(default), "numbers as a:b:c"
        )
        raise InvalidInputError(
            f"policy {name} parameter {parameter.name} takes {expected}, not {text!r}"
        ) from None
    return text


def _number(text: str) -> float:
    value = float(text)
    if isnan(value):
        raise ValueError(text)
    return value

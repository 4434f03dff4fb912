"""A policy's name with the live decision around it: in the daemon, and simulated with `--live`."""

from collections.abc import Mapping

from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean
from treadle.policies.registry import factory, names, parts
from treadle.wire.parameters import parameters

DEFAULT = "weave-l"
PLACEMENT = "consolidate"
LIVE = "live"
# Parameters that every policy has live; they are written behind the policy's name.
_COMMON = ("quotas", "share", "tries", "pause", "fair", "limits")


def wrapped(text: str) -> str:
    """The policy's name with the live decision around it.

    These parameters behind the policy's name are for all policies, and not one's own; they may also
    be written behind `+live`, like its other parameters.
    """
    first, *wrappers = parts(text)
    name, _, query = first.partition("?")
    pairs = [pair for pair in query.split("&") if pair]
    own = [pair for pair in pairs if pair.partition("=")[0] not in _COMMON]
    _check_own(name, own)
    common = [pair for pair in pairs if pair not in own]
    others = [wrapper for wrapper in wrappers if wrapper.partition("?")[0] != LIVE]
    for wrapper in wrappers:
        if wrapper.startswith(f"{LIVE}?"):
            common += wrapper.partition("?")[2].split("&")
    return "+".join([_with(name, own), *others, _with(LIVE, common)])


def _with(name: str, pairs: list[str]) -> str:
    return f"{name}?{'&'.join(pairs)}" if pairs else name


def _check_own(name: str, own: list[str]) -> None:
    """Refuse parameters that neither the policy has nor every live policy, naming both."""
    if not own or name not in names():
        return  # An unknown policy is refused when it is made.
    known = [*parameters(factory(name)), *_COMMON]
    for key, _, _ in (pair.partition("=") for pair in own):
        if key not in known:
            raise InvalidInputError(
                f"policy {name} has no parameter {key!r} (it takes {', '.join(known)})"
                f"{did_you_mean(key, known)}"
            )


def with_setting(text: str, key: str, value: str) -> str:
    """The same policy with this parameter of the live decision."""
    first, *wrappers = (_without(part, key) for part in parts(text))
    first += f"{'&' if '?' in first else '?'}{key}={value}"
    return "+".join([first, *(wrapper for wrapper in wrappers if wrapper != LIVE)])


def with_defaults(text: str, settings: Mapping[str, str]) -> str:
    """The same policy with these parameters of the live decision, where it does not name them."""
    given = {pair.partition("=")[0] for part in parts(text) for pair in _pairs(part)}
    for key, value in settings.items():
        text = text if key in given else with_setting(text, key, value)
    return text


def _pairs(part: str) -> list[str]:
    return part.partition("?")[2].split("&")


def _without(part: str, key: str) -> str:
    name, _, query = part.partition("?")
    return _with(
        name, [pair for pair in query.split("&") if pair.partition("=")[0] not in {"", key}]
    )


def allows(text: str, what: str) -> bool:
    """Whether the policy of this name lets jobs `share` devices, or `tries` what is not known."""
    pairs = wrapped(text).rpartition(f"+{LIVE}")[2].removeprefix("?").lower().split("&")
    return not {f"{what}=off", f"{what}=false"}.intersection(pairs)

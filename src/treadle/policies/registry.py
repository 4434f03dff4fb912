"""The table of policies by name, and how a name with parameters becomes a policy.

A policy is made by a function or class `make(placement, belief, *, parameter=default)`. The first
line of its docstring is what `treadle policies` prints; its keyword-only parameters, with their
types and defaults, are what a user may set: `tiresias?limits=3250:7200&promote=8`. A parameter
that Python keeps for itself ends in an underscore there and not for the user. Third parties add
theirs through the entry-point group `treadle.policies`; docs/add-a-policy.md shows how.

Any policy can be wrapped, the innermost wrapper first: `afs+locality?share=0.1+defrag`. A wrapper
is made by `make(inner, placement, belief, *, parameter=default, ...)` and is a policy again; third
parties' are in the entry-point group `treadle.wrappers`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from treadle.core.errors import InvalidInputError, PolicyError, TreadleError
from treadle.core.ports import InterleavingModel, Policy
from treadle.core.wording import did_you_mean
from treadle.policies.base.placement import Placement
from treadle.wire.parameters import default_text, parameters, read_parameters

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

Factory = Callable[..., Policy]

# Imported on use, so that naming one policy does not load all.
BUILT_IN: Mapping[str, str] = {
    "fifo": "treadle.policies.simple.orders:fifo",
    "backfill": "treadle.policies.simple.orders:backfill",
    "sjf": "treadle.policies.simple.orders:sjf",
    "srtf": "treadle.policies.simple.orders:srtf",
    "srsf": "treadle.policies.simple.orders:srsf",
    "las": "treadle.policies.simple.orders:las",
    "gittins": "treadle.policies.simple.gittins:gittins",
    "tiresias": "treadle.policies.simple.tiresias:tiresias",
    "max-min": "treadle.policies.simple.maxmin:MaxMin",
    "optimus": "treadle.policies.simple.optimus:Optimus",
    "themis": "treadle.policies.simple.themis:Themis",
    "altruistic": "treadle.policies.simple.altruistic:Altruistic",
    "aiturbo": "treadle.policies.aiturbo.aiturbo:AITurbo",
    "afs": "treadle.policies.afs.afs:Afs",
    "afs-p": "treadle.policies.afs.blind:AfsBlind",
    "antman": "treadle.policies.simple.antman:AntMan",
    "muri-s": "treadle.policies.muri.muri:Muri",
    "muri-l": "treadle.policies.muri.muri:MuriL",
    "rubick": "treadle.policies.rubick.rubick:Rubick",
    "rubick-e": "treadle.policies.rubick.rubick:rubick_e",
    "rubick-r": "treadle.policies.rubick.rubick:rubick_r",
    "rubick-n": "treadle.policies.rubick.rubick:rubick_n",
    "sia": "treadle.policies.simple.sia:Sia",
    "synergy": "treadle.policies.simple.synergy:Synergy",
    "philly": "treadle.policies.simple.philly:Philly",
    "weave": "treadle.policies.weave.weave:Weave",
    "weave-l": "treadle.policies.weave.weave:WeaveL",
}

# Policies that never use how long a job is or how much of it is left. A third party's factory says
# so by an attribute: `make.blind = True`.
BLIND = frozenset(
    {
        *("fifo", "backfill", "las", "tiresias", "max-min", "afs-p", "antman", "muri-l", "sia"),
        *("synergy", "philly", "weave-l"),
    }
)

WRAPPERS: Mapping[str, str] = {
    "locality": "treadle.policies.wrappers.locality:Locality",
    "overtaking": "treadle.policies.wrappers.overtaking:Overtaking",
    "dedicated": "treadle.policies.wrappers.dedicated:Dedicated",
    "defrag": "treadle.policies.wrappers.defrag:Defrag",
    "try-small": "treadle.policies.wrappers.trial:TrySmall",
    "live": "treadle.policies.live.decide:Live",
}


class Kind(NamedTuple):
    """What can be named: policies, or wrappers."""

    noun: str
    built_in: Mapping[str, str]
    entry_points: str


POLICY = Kind("policy", BUILT_IN, "treadle.policies")
WRAPPER = Kind("wrapper", WRAPPERS, "treadle.wrappers")
# Policies within a block of `offered`.
_OFFERED: dict[str, Factory] = {}
_PLUS = re.compile(r"\+(?=[A-Za-z])")  # and not the one of 1e+6


def policy(text: str, placement: Placement, belief: InterleavingModel) -> Policy:
    """The policy of `name` or `name?parameter=value&...`, and of `+wrapper?...` after it."""
    first, *around = parts(text)
    twice = [name for name, count in Counter(wrappers_in(text)).items() if count > 1]
    if twice:
        raise InvalidInputError(f"policy {first} is wrapped in {twice[0]} twice; once is enough")
    made = _make(POLICY, first, placement, belief)
    for part in around:
        made = _make(WRAPPER, part, made, placement, belief)
    return made


def parts(text: str) -> list[str]:
    """A policy's text cut up: the policy and its wrappers, the innermost first, each with its
    parameters."""
    return _PLUS.split(text)


def wrappers_in(text: str) -> list[str]:
    """The names of the wrappers in a policy's text, the innermost first."""
    return [part.partition("?")[0] for part in parts(text)[1:]]


def is_blind(text: str) -> bool:
    """Whether a policy never uses the lengths of jobs; wrappers and parameters do not matter."""
    name = parts(text)[0].partition("?")[0]
    return name in BLIND or bool(getattr(factory(name), "blind", False))


@contextmanager
def offered(name: str, make: Factory) -> Iterator[None]:
    """Within this block, and in this process only, a policy has this name, which must be new."""
    if name in names():
        raise InvalidInputError(f"there is a policy {name} already; give yours another name")
    _OFFERED[name] = make
    try:
        yield
    finally:
        del _OFFERED[name]


def first_line(make: Factory) -> str:
    """What a factory says of what it makes."""
    return (make.__doc__ or "(no description)").strip().splitlines()[0]


def in_full(text: str) -> str:
    """A policy's text with every parameter of the policy and its wrappers, defaults too."""
    written = []
    for number, part in enumerate(parts(text)):
        name, _, query = part.partition("?")
        known = parameters(factory(name, WRAPPER if number else POLICY))
        given = dict(pair.split("=", 1) for pair in query.split("&") if pair)
        pairs = [f"{key}={given.get(key, default_text(known[key]))}" for key in known]
        written.append("?".join([name, *filter(None, ["&".join(pairs)])]))
    return "+".join(written)


def _make(kind: Kind, text: str, *given: object) -> Policy:
    name, _, query = text.partition("?")
    make = factory(name, kind)
    parameters = read_parameters(f"{kind.noun} {name}", make, query)
    try:
        return make(*given, **parameters)
    except TreadleError:
        raise
    except Exception as error:
        raise PolicyError(f"{kind.noun} {name} cannot be made: {error!r}") from error


def factory(name: str, kind: Kind = POLICY) -> Factory:
    if name in kind.built_in:
        module, _, attribute = kind.built_in[name].partition(":")
        return getattr(import_module(module), attribute)  # type: ignore[no-any-return]
    if kind is POLICY and name in _OFFERED:
        return _OFFERED[name]
    for entry in _third_parties(kind):
        if entry.name == name:
            return _load(kind, entry)
    if kind is POLICY and name in names(WRAPPER):
        raise InvalidInputError(
            f"{name} is a wrapper and goes behind a policy's name, as in fifo+{name}"
        )
    # Names are short and users guess at them, so a distant neighbour helps too.
    hint = did_you_mean(name, names(kind), similar=0.4)
    raise InvalidInputError(
        f"there is no {kind.noun} {name!r}{hint} (`treadle policies` lists them all)"
    )


def names(kind: Kind = POLICY) -> list[str]:
    """Those built in, in the table's order, then third parties' by name."""
    others = {entry.name for entry in _third_parties(kind)} - set(kind.built_in)
    others |= set(_OFFERED) if kind is POLICY else set()
    return [*kind.built_in, *sorted(others)]


def _load(kind: Kind, entry: "EntryPoint") -> Factory:
    """A third party's factory; if it cannot be loaded, the error is one sentence."""
    try:
        return entry.load()  # type: ignore[no-any-return]
    except Exception as error:
        raise PolicyError(
            f"{kind.noun} {entry.name} ({entry.value}) cannot be loaded: {error!r}"
        ) from error


def _third_parties(kind: Kind) -> "EntryPoints":
    # Imported on use: it costs a tenth of the start of a run that names a built-in policy.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group=kind.entry_points)

"""A policy's name with what it has around it live: in the daemon, and simulated with `--live`."""

from collections.abc import Sequence

from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean
from treadle.policies.registry import factory, names, parameters, parts

DEFAULT = "weave-l"
PLACEMENT = "consolidate"
# Around every policy, the innermost first: jobs larger than a node on parts of few nodes; devices
# that suit each job; priorities; failed jobs
# later and elsewhere; no change that does not pay before its job ends; no thrashing; gangs in turn;
# joining running jobs; host memory and cores of all that would start. Within `suitable` a policy,
# and the wrappers that its user names, see devices of one type. A job that backs off must see which
# jobs of lower priority would overtake it, so `elsewhere` comes outside of `priority`. `pays` and
# `steady` hide running jobs, which `reserve` and `share` must see.
AROUND = ("few", "suitable", "priority", "elsewhere", "pays", "steady", "reserve", "share", "host")
_SHARE_OFF = "share=off"
_SHARE_ON = "share=on"


def wrapped(text: str) -> str:
    """The policy's name with the wrappers that it has live.

    Wrappers that the user named keep their parameters. Those of AROUND come outside of all others,
    in their order, so that the order of words cannot cost a job its work. `share=off` behind the
    policy's name is for all policies, and not one's own parameter.
    """
    first, *wrappers = parts(text)
    name, _, query = first.partition("?")
    own = [pair for pair in query.split("&") if pair and pair not in (_SHARE_OFF, _SHARE_ON)]
    _check_own(name, own)
    first = f"{name}?{'&'.join(own)}" if own else name
    named = {wrapper.partition("?")[0]: wrapper for wrapper in wrappers}
    if len(named) < len(wrappers):
        return text  # One is named twice, which is refused when the policy is made.
    others = [wrapper for name, wrapper in named.items() if name not in AROUND]
    around = [name for name in AROUND if name != "share" or shares(text)]
    return "+".join([first, *others, *(named.get(name, name) for name in around)])


def _check_own(name: str, own: Sequence[str]) -> None:
    """Refuse parameters that neither the policy has nor every live policy, naming both."""
    if not own or name not in names():
        return  # An unknown policy is refused when it is made.
    known = [*parameters(factory(name)), "share"]
    for key, _, value in (pair.partition("=") for pair in own):
        if key == "share":
            raise InvalidInputError(f"policy {name} parameter share takes on or off, not {value!r}")
        if key not in known:
            raise InvalidInputError(
                f"policy {name} has no parameter {key!r} (it takes {', '.join(known)})"
                f"{did_you_mean(key, known)}"
            )


def shares(text: str) -> bool:
    """Whether jobs may share devices under the policy of this name."""
    return _SHARE_OFF not in parts(text)[0].partition("?")[2].split("&")

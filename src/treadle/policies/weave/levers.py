"""What a user may set of weave: declared once, for weave and weave-l alike."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from math import inf
from typing import NamedTuple

from treadle.core.errors import InvalidInputError
from treadle.core.ports import InterleavingModel, Policy
from treadle.policies.base.companions import GROUP_MAX
from treadle.policies.base.costs import RESTART_S
from treadle.policies.base.placement import Placement

_ONLY_WITHOUT_LENGTHS = ("quantum_s", "ratio")


class Levers(NamedTuple):
    """What may be decided, and how much is asked of a change."""

    power: float = inf  # the elasticity of work to devices; inf: measured
    group: int = 4  # most jobs on the same devices
    least: float = 1.05  # what company must get done, where one job alone gets 1 done
    stay: float = 0.02  # so much better another fold must be before all is regrouped
    keep: float = 1.0  # weight of restarts
    restart_s: float = RESTART_S  # what a restart takes, where it was not measured
    patience: float = 20.0  # times what it still runs, after which a waiting job goes first; 0: off
    deadline: float = 0.5  # what a job gains in worth that has no time to lose
    quantum_s: float = 3600.0  # without lengths: where the first class ends, in device-seconds
    ratio: float = 4.0  # of the ends of two classes
    sizes: bool = True  # jobs may have other sizes than they ask for


def factory(
    name: str,
    make: Callable[[Placement, InterleavingModel, Levers], Policy],
    *,
    known: bool,
    about: str,
) -> Callable[..., Policy]:
    """What the registry asks of a policy: a function with a keyword for each parameter.

    known: whether it goes by the lengths of jobs, and so has no classes.
    """

    def made(placement: Placement, belief: InterleavingModel, **given: object) -> Policy:
        return make(placement, belief, _checked(name, Levers(**given)))  # type: ignore[arg-type]

    own = [
        Parameter(field, Parameter.KEYWORD_ONLY, default=default)
        for field, default in Levers._field_defaults.items()
        if not (known and field in _ONLY_WITHOUT_LENGTHS)
    ]
    others = [
        one for one in signature(made).parameters.values() if one.kind is not Parameter.VAR_KEYWORD
    ]
    made.__signature__ = Signature([*others, *own])  # type: ignore[attr-defined]
    made.__doc__ = about
    return made


def _checked(policy: str, levers: Levers) -> Levers:
    """The parameters, if each is one that means something."""
    wanted = (
        ("power", "from 0 to 1, or inf: measured", 0 <= levers.power <= 1 or levers.power == inf),
        ("group", "1 to 4 jobs", 1 <= levers.group <= GROUP_MAX),
        ("least", "1 or more", levers.least >= 1),
        ("stay", "0 or more", levers.stay >= 0),
        ("keep", "0 or more", levers.keep >= 0),
        ("restart_s", "0 or more", levers.restart_s >= 0),
        ("patience", "0 (off) or more", levers.patience >= 0),
        # Classes are counted one by one, so there must not be millions.
        ("quantum_s", "0.001 or more", levers.quantum_s >= 0.001),
        ("ratio", "1.01 or more", levers.ratio >= 1.01),
        ("deadline", "0 (off) or more", levers.deadline >= 0),
    )
    for name, expected, is_right in wanted:
        if not is_right:
            found = getattr(levers, name)
            raise InvalidInputError(f"{policy} {name} must be {expected}, not {found:g}")
    return levers

"""What policies may be wrong about: doubts that are cast on every workload of a league.

Policies believe what the workload says; the truth of the simulation differs from it.
"""

from collections.abc import Mapping
from dataclasses import replace

from treadle.core.errors import InvalidInputError
from treadle.league.standings import LEARNED
from treadle.league.workload_list import HONEST, LeagueWorkload

SHARING_ERROR = 0.15
LENGTH_ERROR = 0.7
RESTART_TIMES = 2.0


def doubted(one: LeagueWorkload, doubt: str) -> LeagueWorkload:
    """The workload under this doubt, one of DOUBTS; a plan says itself that beliefs are learned."""
    if doubt == LEARNED:
        return one
    changes = _restart(one) if doubt == "restart" else _CHANGES[doubt]
    return replace(one, options={**one.options, **changes})


def _restart(one: LeagueWorkload) -> Mapping[str, object]:
    text = str(one.options.get("restart_cost", HONEST["restart_cost"]))
    try:
        cost_s = float(text)
    except ValueError:
        raise InvalidInputError(
            f"workload {one.name} has restart_cost {text}, which cannot be doubled; expected "
            "seconds, or leave the workload out with --workloads"
        ) from None
    return {"restart_cost": f"{RESTART_TIMES * cost_s:g}"}


_CHANGES: Mapping[str, Mapping[str, object]] = {
    "sharing": {"sharing_error": SHARING_ERROR},
    "lengths": {"lengths": "known", "length_error": LENGTH_ERROR},
}
DOUBTS: Mapping[str, str] = {
    "sharing": "jobs on the same devices run 15 % slower than policies believe",
    "restart": "a restart takes twice as long as policies believe",
    "lengths": "lengths are wrong by a log-normal factor with a spread of 0.7",
    LEARNED: "speeds, company and lengths are learned from nothing",
}

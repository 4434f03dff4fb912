"""The settings of a simulation, as text from the command line, and their parsers."""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.ports import InterleavingModel, PerformanceModel
from treadle.core.retry import RetryRule, fixed
from treadle.models.antman_gaps import GapsModel
from treadle.models.scaling import NO_EFFECTS, PHILLY, Effects
from treadle.models.speeds_together import FactorModel, SlowerTogether
from treadle.models.stages import StageTimes
from treadle.models.staggered import PENALTIES_UNMATCHED, StaggeredModel
from treadle.models.tokens import TokenModel
from treadle.sim.costs import MEASURED, AsProfiled, ByModel, Constant, RestartCost
from treadle.sim.faults import FaultSettings
from treadle.sim.run import Look, exactly, rounds

COST_FILE_MAX = 1_000_000  # bytes
SECONDS_MAX = 1e8  # three years: no restart and no round is longer


FACTOR = "factor"
# Treadle's own model (tokens), and what published simulators assume: Muri's lock step with jobs in
# the best or the worst order, or with the authors' penalty for groups formed without matching; and
# opportunistic jobs in the gaps of guaranteed ones. Not here: one factor for all, of the effects.
_MODELS: Mapping[str, Callable[[PerformanceModel, StageTimes], InterleavingModel]] = {
    "tokens": TokenModel,
    "staggered": lambda base, times: StaggeredModel(base, times=times),
    "staggered-worst": lambda base, times: StaggeredModel(base, times=times, ordering="worst"),
    "staggered-unmatched": lambda base, times: StaggeredModel(
        base, times=times, penalties=PENALTIES_UNMATCHED
    ),
    "gaps": lambda base, times: GapsModel(base, times=times),
}
SHARING = (*_MODELS, FACTOR)

# What policies know about speeds: the truth; what they have observed; or nothing.
BELIEFS = ("known", "learned", "prior")
# What they know about lengths: what jobs declare; a prediction from the losses so far; what jobs
# like it took, until the job runs and reports its steps; or that alone, of jobs that never report.
# auto: known, but steps where beliefs are learned.
LENGTHS = ("auto", "known", "losses", "steps", "survival")

# How speed follows from devices: by each job's scaling curve, or by execution plans where a job's
# model is one of the plan catalogue's.
SPEEDS = ("scaling", "plans")

# Retry a failed job as often as it allows, or only if that may help. Failure reasons are those of
# the Philly study or, in the journal of a live run, names of rules.
RETRY = ("fixed", "classified", "rules")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a run depends on, except the trace and the cluster."""

    policy: str = "fifo"
    live: bool = False  # with all that the policy has around it in a daemon
    placement: str = "consolidate"
    time: str = "event"  # event, or rounds:SECONDS
    restart_cost: str = "none"  # none, seconds, profile, measured, or a CSV file
    restart_charge: str = "changes"  # changes, starts, warm, decisions, or groups
    effects: str = "none"  # none, philly, or nodes=0.85,racks=0.76,sharing=0.77
    speeds: str = "scaling"  # how speed follows from devices: one of SPEEDS
    sharing: str = "tokens"  # speeds of jobs on the same devices: one of SHARING
    sharing_error: float = 0.0  # jobs that share are slower than believed, by this share
    belief: str = "known"  # what policies know about speeds: one of BELIEFS
    belief_error: float = 0.0  # spread of the log-normal error in it, or in what it learns from
    lengths: str = "auto"  # what policies know about job lengths: one of LENGTHS
    length_error: float = 0.0  # spread of the log-normal error in the lengths that policies see
    elastic: float | None = None  # jobs may grow and shrink, with this serial share
    retries: int | None = None  # of every job; None: as in the trace
    retry: str = "fixed"  # which failures to retry: one of RETRY
    faults: FaultSettings = field(default_factory=FaultSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("belief_error", "length_error", "retries"):
            number = getattr(self, name)
            if number is not None and not number >= 0:
                raise InvalidInputError(
                    f"{name.replace('_', ' ')} must be 0 or more, not {number:g}"
                )


def lengths_known(settings: Settings) -> str:
    """What policies know about lengths; `auto` is known, unless beliefs are learned."""
    if settings.lengths == "auto":
        return "steps" if settings.belief == "learned" else "known"
    return settings.lengths


def look(text: str) -> Look:
    """`event` or `rounds:SECONDS`."""
    if text == "event":
        return exactly
    word, _, length = text.partition(":")
    if word == "rounds":
        return rounds(_above_zero(length, "the length of a round", "write rounds:300"))
    raise InvalidInputError(f"time {text!r} is not known; expected event or rounds:SECONDS")


def restart_cost(text: str) -> RestartCost:
    """`none`, seconds, `profile`, `measured`, or a CSV file of model,size,seconds."""
    if text == "none":
        return Constant()
    if text == "profile":
        return AsProfiled()
    if text == "measured":
        return MEASURED
    if Path(text).suffix == ".csv":
        return _cost_file(Path(text))
    try:
        seconds = float(text)
    except ValueError:
        raise InvalidInputError(
            f"restart cost {text!r} is not known; "
            "expected none, seconds, profile, measured or a .csv file"
        ) from None
    if not 0 <= seconds <= SECONDS_MAX:
        raise InvalidInputError(f"a restart cost must be 0 to {SECONDS_MAX:g} seconds, not {text}")
    return Constant(seconds)


def effects(text: str) -> Effects:
    """`none`, `philly`, or factors such as `nodes=0.85,racks=0.76,sharing=0.77`."""
    if text in {"none", "philly"}:
        return NO_EFFECTS if text == "none" else PHILLY
    names = {"nodes": "across_nodes", "racks": "across_racks", "sharing": "shared"}
    factors: dict[str, float] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key not in names:
            raise InvalidInputError(
                f"effect {key!r} is not known; expected none, philly, "
                "or nodes=, racks= and sharing= with factors"
            )
        factors[names[key]] = _above_zero(value, f"the effect {key}", "write a factor up to 1")
        if factors[names[key]] > 1:
            raise InvalidInputError(f"the effect {key} must be a factor up to 1, not {value}")
    return Effects(**factors)


def sharing(
    text: str, base: PerformanceModel, times: StageTimes, effect: str = "none"
) -> InterleavingModel:
    """How jobs that take turns on the same devices slow each other down.

    effect: the effects of the run. Their factor of sharing is for the sharing `factor`; any other
    model says itself what sharing costs.
    """
    if text == FACTOR:
        return FactorModel(base, effects(effect).shared)
    make = _MODELS.get(text)
    if make is None:
        raise InvalidInputError(
            f"sharing {text!r} is not known; expected one of {', '.join(SHARING)}"
        )
    if "sharing=" in effect:
        raise InvalidInputError(
            f"the effects are {effect} and --sharing {text} says itself what sharing costs; "
            f"use --sharing {FACTOR}, or leave sharing= out"
        )
    return make(base, times)


def slower_together(model: InterleavingModel, error: float) -> PerformanceModel:
    """The truth, where jobs that share are slower than the model says, by this share."""
    if not 0 <= error < 1:
        raise InvalidInputError(
            f"sharing error {error:g} is invalid; expected a share of 0 or more and below 1"
        )
    return SlowerTogether(model, 1.0 - error) if error else model


def retry_rule(text: str) -> RetryRule:
    """A new retry rule: as often as the job allows, or by failure class and history."""
    if text == "fixed":
        return fixed
    if text not in RETRY:
        raise InvalidInputError(f"retry {text!r} is not known; expected one of {', '.join(RETRY)}")
    if text == "rules":
        from treadle.failures.retry import Classified, live_verdicts  # noqa: PLC0415  # as below
        from treadle.failures.rules import shipped  # noqa: PLC0415

        return Classified(live_verdicts(shipped()))
    from treadle.sim.simulated_verdicts import classified  # noqa: PLC0415  # rules of logs load slowly

    return classified()


def elastic_sizes(asked: int, cluster: Cluster) -> tuple[int, ...]:
    """Powers of two up to twice the asked size, and the asked size itself."""
    top = min(2 * asked, max(cluster.device_count, asked))
    powers = [1 << exponent for exponent in range(top.bit_length()) if 1 << exponent <= top]
    return tuple(sorted({*powers, asked}))


def _above_zero(text: str, what: str, advice: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -inf
    if not 0 < value <= SECONDS_MAX:
        raise InvalidInputError(f"{what} must be a number above 0, not {text!r}; {advice}")
    return value


def _cost_file(path: Path) -> ByModel:
    table: dict[str, dict[int, float]] = {}
    if path.exists() and path.stat().st_size > COST_FILE_MAX:
        raise InvalidInputError(f"{path} is larger than {COST_FILE_MAX} bytes; is it a cost table?")
    try:
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"{path} cannot be read: {error}") from None
    if not rows or rows[0] != ["model", "size", "seconds"]:
        found = ",".join(rows[0]) if rows else "nothing"
        raise InvalidInputError(f"{path} line 1: expected model,size,seconds and found {found}")
    for line, row in enumerate(rows[1:], start=2):
        try:
            model, size, seconds = row[0], int(row[1]), float(row[2])
        except (ValueError, IndexError):
            raise InvalidInputError(
                f"{path} line {line}: expected a model, a whole size and seconds, found {row}"
            ) from None
        if size < 1 or not 0 <= seconds <= SECONDS_MAX:
            raise InvalidInputError(f"{path} line {line}: size and seconds cannot be {row[1:]}")
        table.setdefault(model, {})[size] = seconds
    return ByModel(table)

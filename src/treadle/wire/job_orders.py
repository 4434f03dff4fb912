"""One order for many jobs, and what became of it for each of them."""

from dataclasses import dataclass
from enum import StrEnum

from treadle.core.allocation import Pause
from treadle.wire.jobs import JobChange, JobView, State
from treadle.wire.problems import RequestError

IDS_MAX = 1000  # in one request; clients send more in several


class Verb(StrEnum):
    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    PAUSE = "pause"  # a running job goes on later where it was; a waiting one is held
    RESUME = "resume"
    CHANGE = "change"
    DELETE = "delete"  # the record and output of a job that has ended; checkpoints stay


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSelection:
    """Jobs that have not ended, by their properties; an empty field matches all."""

    mine: bool = False  # only the caller's
    user: str = ""
    tenant: str = ""
    array: str = ""
    name: str = ""
    states: tuple[State, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsOrder:
    """An order for the jobs with these ids, or for all that a selection matches."""

    verb: Verb
    ids: tuple[str, ...] = ()  # of jobs or arrays, or unique names; at most 1,000
    select: JobSelection | None = None  # instead of ids
    change: JobChange | None = None  # for the verb "change"
    how: Pause = Pause.FROZEN  # for the verb "pause": suspended also frees GPU memory
    dry_run: bool = False  # only say what would be done


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """What became of the order for one id; `error` is empty where it was carried out."""

    id: str  # as it was asked
    jobs: tuple[JobView, ...] = ()  # the job, or the members of an array, that it was for
    error: str = ""  # why it was refused, in one sentence
    code: str = ""  # the same as a stable word: "not-found", "not-allowed", "conflict", "invalid"
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsOrdered:
    """The answer: everything that was carried out was committed together."""

    outcomes: tuple[JobOutcome, ...]
    done: int  # jobs
    refused: int  # ids


def refusal_of(outcome: JobOutcome) -> RequestError:
    """The error that a request for this id alone would have been refused with."""
    kinds = {kind.code: kind for kind in RequestError.__subclasses__()}
    return kinds.get(outcome.code, RequestError)(outcome.error, hint=outcome.hint)

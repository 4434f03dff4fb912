"""How an attempt ends, why it failed, and how far it was."""

from enum import StrEnum

from treadle.core.value import value

NOT_LAUNCHED_CODE = 126  # exit code of a command that could not be run, as shells write it


class How(StrEnum):
    """What ended an attempt."""

    EXITED = "exited"  # by itself; the exit code says how
    STOPPED = "stopped"  # by an order, or from outside; it can go on later
    REPLACED = "replaced"  # by an order that launches the job anew
    TIME_LIMIT = "time-limit"
    OOM_KILLED = "oom-killed"
    LOST = "lost"  # with its supervisor or its node
    NOT_LAUNCHED = "not-launched"  # its command could not be run
    ENGINE_ERROR = "engine-error"  # the engine cannot launch it: a mistake in its orders or in us
    MACHINE_ERROR = "machine-error"  # the machine lacked something; the job goes back to the queue

    @property
    def shown(self) -> str:
        """What ended it from outside, as people see it; empty if it ended by itself."""
        match self:
            case How.EXITED:
                return ""
            case How.REPLACED:
                return How.STOPPED.value
            case _:
                return self.value


@value
class Verdict:
    """Why an attempt failed, as its classifier put it."""

    kind: str  # deterministic, transient, resource, unknown
    rule: str
    sentence: str
    advice: str
    evidence: str = ""  # the line of output that decided
    more: str = ""  # what it needs more of, such as gpu memory


@value
class LastProgress:
    """What an attempt last said about its progress."""

    step: float
    total: float | None = None
    per_s: float | None = None  # steps a second
    loss: float | None = None
    source: str = "report"  # or "log": read from its output
    # Of the whole work: how much is done, is safe in a checkpoint, is done each second, and over
    # how many seconds that was measured.
    share: float = 0.0
    checkpoint: float | None = None
    share_per_s: float | None = None
    measured_s: float = 0.0
    speeds: tuple[float, float] | None = None  # steps a second, where it was slow and fast
    alone: bool = True  # it had its devices to itself while its speed was measured
    # Seconds of a step as the job measured them: in each stage, of all of it, waiting for turns.
    stages: tuple[tuple[str, float], ...] = ()

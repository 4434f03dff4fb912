"""The phases of a job and the only ways from one to the next.

    WAITING ──Start──► STARTING ──JobStarted──► RUNNING ──JobFinished──► FINISHED
       ▲                  │  ▲                     │ │
       │                  │  └───────Change────────┘ │
       └───JobStopped── STOPPING ◄──────Stop─────────┘

    STARTING ──JobPaused──► PAUSED ──Change──► STARTING        (PAUSED ends as RUNNING does)

Rules of this file
1. The table is the truth: a pair that is not in it is either a stale report (ignored, because
   engines are late and repeat themselves) or our own mistake (an assert), never a new state.
2. A job that is ordered to stop may still finish or fail first; the fact wins over the order.
3. A cancelled job that holds devices goes through CANCELLING, so that its devices are not given
   to another job before it has released them.
4. STOPPING to STARTING is for jobs that swap devices in a circle: the same list of orders stops
   one of them and starts it again behind the others.
5. FINISHED, FAILED and CANCELLED are final.
6. A job is paused and goes on by Change; PAUSED waits for its devices as WAITING does for any.
"""

from enum import StrEnum


class Phase(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    CANCELLING = "cancelling"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    # Enum hashes in Python; phases are looked up in the table several times an event.
    __hash__ = str.__hash__

    @property
    def ended(self) -> bool:
        return self in _ENDED


_ENDED = frozenset({Phase.FINISHED, Phase.FAILED, Phase.CANCELLED})

# (phase, name of the event or action) -> next phase
TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.WAITING, "Start"): Phase.STARTING,
    (Phase.WAITING, "JobCancelled"): Phase.CANCELLED,
    (Phase.STARTING, "JobStarted"): Phase.RUNNING,
    (Phase.STARTING, "Change"): Phase.STARTING,
    (Phase.STARTING, "Stop"): Phase.STOPPING,
    (Phase.STARTING, "JobStopped"): Phase.WAITING,
    (Phase.STARTING, "JobFinished"): Phase.FINISHED,
    (Phase.STARTING, "JobFailed"): Phase.FAILED,
    (Phase.STARTING, "JobRetried"): Phase.WAITING,
    (Phase.STARTING, "JobCancelled"): Phase.CANCELLING,
    (Phase.RUNNING, "JobProgressed"): Phase.RUNNING,
    (Phase.RUNNING, "Change"): Phase.STARTING,
    (Phase.RUNNING, "Stop"): Phase.STOPPING,
    (Phase.RUNNING, "JobStopped"): Phase.WAITING,
    (Phase.RUNNING, "JobFinished"): Phase.FINISHED,
    (Phase.RUNNING, "JobFailed"): Phase.FAILED,
    (Phase.RUNNING, "JobRetried"): Phase.WAITING,
    (Phase.RUNNING, "JobCancelled"): Phase.CANCELLING,
    (Phase.STARTING, "JobPaused"): Phase.PAUSED,
    (Phase.PAUSED, "Change"): Phase.STARTING,
    (Phase.PAUSED, "Stop"): Phase.STOPPING,
    (Phase.PAUSED, "JobStopped"): Phase.WAITING,
    (Phase.PAUSED, "JobFinished"): Phase.FINISHED,
    (Phase.PAUSED, "JobFailed"): Phase.FAILED,
    (Phase.PAUSED, "JobRetried"): Phase.WAITING,
    (Phase.PAUSED, "JobCancelled"): Phase.CANCELLING,
    (Phase.STOPPING, "Start"): Phase.STARTING,
    (Phase.STOPPING, "JobStopped"): Phase.WAITING,
    (Phase.STOPPING, "JobFinished"): Phase.FINISHED,
    (Phase.STOPPING, "JobFailed"): Phase.FAILED,
    (Phase.STOPPING, "JobRetried"): Phase.WAITING,
    (Phase.STOPPING, "JobCancelled"): Phase.CANCELLING,
    (Phase.CANCELLING, "Stop"): Phase.CANCELLING,
    (Phase.CANCELLING, "JobStopped"): Phase.CANCELLED,
    (Phase.CANCELLING, "JobFinished"): Phase.FINISHED,
    (Phase.CANCELLING, "JobFailed"): Phase.CANCELLED,
    (Phase.CANCELLING, "JobRetried"): Phase.CANCELLED,
}

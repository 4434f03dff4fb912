"""The end of an attempt as a fact, from the files that its supervisor left."""

from contextlib import suppress
from pathlib import Path

from treadle.core.attempt import NOT_LAUNCHED_CODE, How
from treadle.core.events import AttemptEnded
from treadle.engines.agent.found import Found
from treadle.engines.node import attempt_folders
from treadle.engines.node.attempt_folders import KILLED_CODE

FENCED = "fenced"  # the grant of its node ran out

# What is written as the cause of an end; without a cause the ranks exited.
_HOW = {
    "stopped": How.STOPPED,
    "time-limit": How.TIME_LIMIT,
    "oom-killed": How.OOM_KILLED,
    "lost": How.LOST,
    FENCED: How.LOST,
    "machine-error": How.MACHINE_ERROR,
    "launch-error": How.ENGINE_ERROR,
}


def ended_of(
    found: Found,
    *,
    action: int | None = None,
    how: How | None = None,
    failure: str = "",
    lacked: bool = False,
    ranks: int = 0,
) -> AttemptEnded:
    """The end of an attempt that is not alive any more.

    action: the order it answers, by default the one it was launched for. how: if that is known
    already. failure: why there was no supervisor. lacked: because the machine lacked something.
    ranks: how many were launched, if it is known.
    """
    status = found.status
    if status is not None and status.ended:
        seen = _HOW.get(status.cause, How.NOT_LAUNCHED if status.error else How.EXITED)
        error, code, codes = status.error, status.code, status.codes
    elif failure:
        seen = How.MACHINE_ERROR if lacked else How.ENGINE_ERROR
        error, code, codes = failure, NOT_LAUNCHED_CODE, ()
    else:
        seen, error, code, codes = How.LOST, "", KILLED_CODE, ()
    return AttemptEnded(
        found.job,
        found.action if action is None else action,
        found.number,
        how or seen,
        None if found.never_was or seen is How.MACHINE_ERROR else code,
        codes=(*codes, *(None,) * (ranks - len(codes))),
        error=error,
        started_at=None if status is None else status.started_at,
        ended_at=None if status is None else status.ended_at,
        ran_s=None if status is None or not status.ended else status.ran_s,
        memory_peak_gib=_gib(None if status is None else status.peak_bytes),
        memory_kills=0 if status is None else status.memory_kills,
        node_lost=status is not None and status.ended and status.cause == FENCED,
    )


def seal(folder: Path, ended: AttemptEnded) -> bool:
    """Write down an end of which the supervisor wrote nothing, so that nothing is launched there.

    False if a supervisor that came late runs there: the attempt has not ended.
    """
    cause = next(cause for cause, how in _HOW.items() if how is ended.how)
    code = KILLED_CODE if ended.code is None else ended.code
    with suppress(OSError):  # The disk is full, perhaps.
        return attempt_folders.seal(folder, cause, code=code, error=ended.error)
    return True


def _gib(count: int | None) -> float | None:
    return None if count is None else round(count / 2**30, 4)

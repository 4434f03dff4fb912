"""From the present allocations to those a policy wants: orders, in a sequence that is always safe.

Applied one after another to the current allocations, the orders give the target, and no prefix of
them books a device twice. Jobs that only release devices come first; a job that needs another's
devices follows it and names it in `after`. When jobs want to swap devices in a circle, one of them
has to stop and start again, since none of them could move first.
"""

from collections.abc import Iterable, Mapping

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.errors import DoubleBookingError, PolicyError
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.tenancy import double_booking

Tenants = Mapping[Device, Mapping[int, JobId]]

_MAY_HOLD = frozenset({Phase.WAITING, Phase.STARTING, Phase.RUNNING, Phase.PAUSED})


def difference(
    jobs: Mapping[JobId, Job],
    tenants: Tenants,
    changes: Mapping[JobId, Allocation | None],
    next_id: int,
) -> list[Action]:
    """Orders that turn what is held into what `changes` asks for, ids counting up from next_id."""
    actions, moves = _sorted_out(jobs, changes, next_id)
    if not moves:
        return actions
    after = _after(tenants, changes, moves)
    if not any(after.values()):  # As most of the time.
        for identity, allocation in moves.items():
            kind = Start if jobs[identity].allocation is None else Change
            actions.append(kind(next_id + len(actions), identity, allocation))
        return actions
    waits = _Waits(moves, after)
    stopped: set[JobId] = set()  # jobs that had to break a circle
    ready = [identity for identity in moves if not waits.count[identity]]
    while moves:
        if not ready:
            identity = _in_a_circle(moves, after, stopped)
            stopped.add(identity)
            actions.append(Stop(next_id + len(actions), identity))
            ready = waits.freed_by([identity])
        for identity in ready:
            fresh = jobs[identity].allocation is None or identity in stopped
            first = (identity, *after[identity]) if identity in stopped else after[identity]
            order = (Start if fresh else Change)(
                next_id + len(actions), identity, moves.pop(identity), first
            )
            actions.append(order)
        ready = waits.freed_by([identity for identity in ready if identity not in stopped])
    return actions


class _Waits:
    """For how many others each job that moves has to wait."""

    def __init__(
        self, moves: Mapping[JobId, Allocation], after: Mapping[JobId, tuple[JobId, ...]]
    ) -> None:
        self._place = {identity: place for place, identity in enumerate(moves)}
        self._behind: dict[JobId, list[JobId]] = {}
        self.count: dict[JobId, int] = {}
        for identity in moves:
            others = [other for other in after[identity] if other in moves]
            self.count[identity] = len(others)
            for other in others:
                self._behind.setdefault(other, []).append(identity)

    def freed_by(self, gone: Iterable[JobId]) -> list[JobId]:
        """Jobs that wait for none any more now that these have let go, in the order given."""
        found: list[JobId] = []
        for identity in gone:
            for other in self._behind.get(identity, ()):
                self.count[other] -= 1
                if not self.count[other]:
                    found.append(other)
        return sorted(found, key=self._place.__getitem__)


def _sorted_out(
    jobs: Mapping[JobId, Job], changes: Mapping[JobId, Allocation | None], next_id: int
) -> tuple[list[Action], dict[JobId, Allocation]]:
    """Orders for jobs that only release devices, and the jobs that get other devices."""
    actions: list[Action] = []
    moves: dict[JobId, Allocation] = {}
    for identity, allocation in changes.items():
        job = jobs.get(identity)
        if job is None or job.phase not in _MAY_HOLD:
            found = "is not known" if job is None else f"is {job.phase}"
            raise PolicyError(f"job {identity} {found} and cannot be scheduled")
        if allocation is None:
            if job.allocation is not None:
                actions.append(Stop(next_id + len(actions), identity))
        elif job.allocation is None or job.allocation != allocation:
            spec = job.spec
            if not spec.runs_on(len(allocation.devices)) or allocation.plan not in spec.plans:
                raise PolicyError(_not_offered(job, allocation))
            if allocation.paused:
                _check_pauses(job, allocation)
                actions.append(Change(next_id + len(actions), identity, allocation))
            else:
                moves[identity] = allocation
    return actions, moves


def _check_pauses(job: Job, new: Allocation) -> None:
    held, how = job.allocation, new.paused
    in_place = held is not None and held.as_paused(how) == new
    if not in_place or how not in job.pauses or job.phase not in (Phase.RUNNING, Phase.PAUSED):
        raise PolicyError(f"job {job.id} is {job.phase} and cannot be {how} so")


def _not_offered(job: Job, allocation: Allocation) -> str:
    if not job.spec.runs_on(allocation.size):
        return f"job {job.id} was given {allocation.size} devices; it runs on {job.spec.sizes}"
    return f"job {job.id} was given {allocation.plan}, which it does not offer"


def _after(
    tenants: Tenants, changes: Mapping[JobId, Allocation | None], moves: Mapping[JobId, Allocation]
) -> dict[JobId, tuple[JobId, ...]]:
    """For each job that moves, the present holders of its new devices; raises on a collision."""
    claimed: dict[tuple[Device, int], JobId] = {}
    after: dict[JobId, tuple[JobId, ...]] = {}
    for identity, allocation in moves.items():
        turn = allocation.turn
        holders: dict[JobId, None] = {}
        for device in allocation.devices:
            other = claimed.setdefault((device, turn), identity)
            if other != identity:
                raise DoubleBookingError(double_booking(device, turn, other, identity))
            turns = tenants.get(device)
            holder = None if turns is None else turns.get(turn)
            if holder is None or holder == identity:
                continue
            if holder not in changes or _keeps(changes[holder], device, turn):
                raise DoubleBookingError(double_booking(device, turn, holder, identity))
            holders[holder] = None
        after[identity] = tuple(holders)
    return after


def _keeps(allocation: Allocation | None, device: Device, turn: int) -> bool:
    if allocation is None or allocation.paused:
        return False
    return allocation.turn == turn and device in allocation.devices


def _in_a_circle(
    moves: Mapping[JobId, Allocation], after: Mapping[JobId, tuple[JobId, ...]], stopped: set[JobId]
) -> JobId:
    """Follow which job waits for which until one comes up twice."""
    identity = next(iter(moves))
    seen: set[JobId] = set()
    while identity not in seen:
        seen.add(identity)
        identity = next(o for o in after[identity] if o in moves and o not in stopped)
    return identity

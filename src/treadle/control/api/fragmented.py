"""Devices that stood free while a job waited which needs no more, only because of where they are.

At most every ASK_EVERY_S, the reasons of the first jobs in line are looked at. If one of them would
be content with as many devices as are free and waits for "fragmentation", all free devices count
from then on: until the next look, or until that job waits no more or finds too few. If some are
taken meanwhile, the others count. A span in which the daemon did not run adds nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from treadle.control.api.context import Context
from treadle.control.api.queue_order import idle_devices, in_queue, positions
from treadle.control.api.usage_days import DAYS_MAX, date_of, parts
from treadle.control.loop import wall
from treadle.core.actions import Action
from treadle.core.events import Event
from treadle.core.job import JobId
from treadle.core.scheduler import Scheduler

FRAGMENTED = "fragmented"  # the setting: device-seconds by day
ASK_EVERY_S, WRITE_EVERY_S = 10.0, 30.0
ASKED_MAX = 4  # jobs, the first in line
STOOD_STILL_S = 30.0  # so long without a look: the daemon was stopped, or its machine slept

_decoder = msgspec.json.Decoder(dict[str, float])


class _Found(NamedTuple):
    job: JobId  # waits for other devices than those
    devices: int  # free


class Fragmented:
    """Listens to the loop and sums up, by day."""

    def __init__(self, context: Context, wall_at: Callable[[], float] = wall) -> None:
        self._context = context
        self._wall_at = wall_at
        self._device_s = _read(context.store.setting(FRAGMENTED))
        self._written, self._write_at = self._version(), 0.0
        self._found: _Found | None = None
        self._counted_to = context.clock.now()
        self._ask_at = self._counted_to

    def hours(self) -> Mapping[str, float]:
        """Device-hours of the days in which a daemon counted them."""
        self.look()
        return {day: device_s / 3600.0 for day, device_s in self._device_s.items()}

    def observe(
        self,
        now: float,  # noqa: ARG002
        events: Sequence[Event],  # noqa: ARG002
        actions: Sequence[Action],  # noqa: ARG002
        scheduler: Scheduler,  # noqa: ARG002
    ) -> None:
        """The loop took something in, or has decided."""
        self.look()

    def look(self) -> None:
        """Count until now; look at reasons if it is time."""
        now = self._context.clock.now()
        self._count(now)
        asks = now >= self._ask_at
        if self._found is None and not asks:
            return
        free = self._free()
        self._found = self._still(self._found, free)
        if asks and free and not self._context.scheduler.is_due(now):
            self._ask_at = now + ASK_EVERY_S
            job = _first(self._context.scheduler, free, now)
            self._found = None if job is None else _Found(job, free)

    def unwritten(self, now: float, *, last: bool = False) -> dict[str, str]:
        """The setting; nothing if the store has it, or was given it a moment ago.

        A daemon that is killed loses what its last seconds added.
        """
        self._count(self._context.clock.now())
        version = self._version()
        if version == self._written or (now < self._write_at and not last):
            return {}
        self._written, self._write_at = version, now + WRITE_EVERY_S
        return {FRAGMENTED: msgspec.json.encode(self._device_s).decode()}

    def close(self) -> None:
        """Nothing is counted from now on."""
        self._count(self._context.clock.now())
        self._found, self._ask_at = None, float("inf")

    def _count(self, now: float) -> None:
        passed_s, self._counted_to = now - self._counted_to, now
        if passed_s > STOOD_STILL_S:
            return
        devices = 0 if self._found is None else self._found.devices
        until_at = self._wall_at()
        for day, seconds in parts(until_at - passed_s, until_at):
            date = date_of(day)
            self._device_s[date] = self._device_s.get(date, 0.0) + seconds * devices
        while len(self._device_s) > DAYS_MAX:
            del self._device_s[min(self._device_s)]

    def _free(self) -> int:
        """Devices that a waiting job could be given; none while nothing is started at all."""
        context = self._context
        idle = not context.scheduler.ranking.queue or context.condition.draining
        if idle or context.condition.store_error or context.charge.error:
            return 0
        return idle_devices(context.scheduler)

    def _still(self, found: _Found | None, free: int) -> _Found | None:
        """What is left of it now."""
        scheduler = self._context.scheduler
        if found is None or not in_queue(scheduler, found.job):
            return None
        is_enough = scheduler.jobs[found.job].spec.sizes[0] <= free
        return _Found(found.job, min(found.devices, free)) if is_enough else None

    def _version(self) -> tuple[int, float]:
        return len(self._device_s), sum(self._device_s.values())


def _first(scheduler: Scheduler, free: int, now: float) -> JobId | None:
    """The first job in line that waits only because of where the free devices are."""
    for job in list(positions(scheduler))[:ASKED_MAX]:
        is_enough = scheduler.jobs[job].spec.sizes[0] <= free
        if is_enough and scheduler.why(job, now).code == "fragmentation":
            return job
    return None


def _read(text: str | None) -> dict[str, float]:
    """What was kept; nothing if it cannot be read, as after a change of its format."""
    try:
        return _decoder.decode(text) if text else {}
    except msgspec.MsgspecError:
        return {}

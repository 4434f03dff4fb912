"""When a controller takes charge: attempts of the one before are watched again, or ended.

What is wanted names the attempts that are to run here (messages.Wanted). Of each there may be a
supervisor that runs, one that has ended without a witness, or nothing at all. Other attempts that
run are strays, whatever their numbers: the store was restored from a backup, or no job waits for
them.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from treadle.core.allocation import Allocation
from treadle.core.attempt import How
from treadle.core.errors import EngineError
from treadle.core.launch import AttemptId
from treadle.engines.agent.attempt_run import AttemptRun
from treadle.engines.agent.end_facts import ended_of
from treadle.engines.agent.found import Found, look
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.agent.messages import Wanted
from treadle.engines.node import attempt_folders
from treadle.engines.node.pause_files import away_s

if TYPE_CHECKING:
    from treadle.engines.agent.machine import Machine

TRIES_TO_MEET, TRIES_TO_READ = 16, 20  # of looks that are repeated soon: 4 s, 6 s

logger = logging.getLogger("treadle")


class Rejoining:
    """Of one machine."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine

    async def adopt(self, wanted: Sequence[Wanted], over: Collection[AttemptId]) -> None:
        named = {each.attempt for each in wanted}
        there, marks = await self._look({*named, *over})
        for attempt in sorted(set(over) - named):
            if not there[attempt].alive:
                self._machine.tell(ended_of(there[attempt], how=How.REPLACED))
        # All that is alive holds its devices before anything is launched.
        runs = [await self._wanted(each, there[each.attempt]) for each in wanted]
        for mark in sorted(marks - named):
            run = await self._stray(there[mark], silent=mark not in over)
            runs += [] if run is None else [run]
        for run in runs:
            self._machine.runs[run.id] = run
            run.begin()

    async def _look(
        self, attempts: Collection[AttemptId]
    ) -> tuple[Mapping[AttemptId, Found], Set[AttemptId]]:
        """These, and all whose ends were not seen. Without their files nothing may be launched."""
        places = self._machine.folders

        def all_of_them() -> tuple[dict[AttemptId, Found], set[AttemptId]]:
            marks = set(places.live())
            there = {mark: look(places, mark) for mark in {*marks, *attempts}}
            self._machine.groups.sweep(there.values())
            return there, marks

        try:
            return await self._machine.looks.until(all_of_them, bool, tries=TRIES_TO_READ)
        except OSError as error:
            raise EngineError(
                f"the attempts under {places.root} cannot be read: {error}; what runs keeps "
                "running, start again when they can be",
                retryable=True,
            ) from None

    async def _wanted(self, wanted: Wanted, seen: Found) -> AttemptRun:
        run = AttemptRun(wanted, self._machine)
        if seen.never_was and not wanted.told:
            # If it is launched and a supervisor comes late, the lock decides between the two.
            if run.begins or (run.is_to_end and await asyncio.to_thread(self._seal, seen)):
                return run
            seen = await asyncio.to_thread(look, self._machine.folders, seen.id)
        live = await self.rejoin(seen, wanted.allocation)
        if wanted.allocation is not None and live.action == wanted.action:
            # Files know devices and turn; the plan and the host share are the job's.
            how = None if live.allocation is None else live.allocation.paused
            self._machine.holders.park(live, wanted.allocation.as_paused(how))
        run.adopt(live)
        return run

    def _seal(self, seen: Found) -> bool:
        """A supervisor that starts late must see that it is not wanted any more."""
        try:
            sealed = attempt_folders.seal(seen.folder, "stopped")
        except OSError:  # The disk is full, perhaps. Its mark stays, so that it is looked at again.
            return True
        if sealed:
            self._machine.folders.forget(*seen.id)
        return sealed

    async def _stray(self, stray: Found, *, silent: bool) -> AttemptRun | None:
        """Stop an attempt that is not wanted; a dead one may have left processes behind.

        Nor may one begin later: a supervisor that was only slow finds that the attempt has ended.
        """
        if stray.ended and not stray.alive:
            await asyncio.to_thread(self._machine.folders.forget, *stray.id)
            return None
        if stray.alive:
            logger.warning(
                "attempt %d of job %s runs in %s and belongs to no job of this store; it is "
                "stopped",
                stray.number,
                stray.job,
                stray.folder,
            )
        live = await self.rejoin(stray)
        if live.gone.done():
            self._machine.holders.hold(live)  # No other job gets its devices before it is gone.
        live.stray, live.silent = True, silent or not stray.alive
        run = AttemptRun(Wanted(attempt=stray.id, action=-1, allocation=None), self._machine)
        run.adopt(live)
        return run

    async def rejoin(self, seen: Found, ordered: Allocation | None = None) -> LiveAttempt:
        """Watch an attempt of an earlier agent again; it is gone if its supervisor is.

        ordered: what it holds if its files do not say.
        """
        machine = self._machine
        if seen.alive and seen.supervisor is None:  # It is just beginning.
            seen = await machine.looks.until(
                lambda: look(machine.folders, seen.id),
                lambda now: not now.alive or now.supervisor is not None,
                tries=TRIES_TO_MEET,
            )
        live = LiveAttempt(
            seen.job,
            seen.number,
            action=seen.action,
            allocation=seen.allocation(machine.node.name) or ordered,
            folder=seen.folder,
            tag=machine.groups.tag_of(seen),
            scope=machine.groups.scope_of(seen),
            nonce=seen.id.nonce,
        )
        live.on_undying = machine.holders.undying
        if (known := seen.supervisor) is not None:
            live.workdir, live.grace_s = known.workdir, known.grace_s
            live.time_limit_s = known.time_limit_s
            if seen.status is not None:
                now = asyncio.get_running_loop().time()
                now -= away_s(seen.paused, now)
                live.time_limit_s = seen.status.left_of(known.time_limit_s, now)
        live.watch(known.process if known is not None and seen.alive else None)
        if not live.gone.done():
            await asyncio.to_thread(machine.mps.adopt, live.id, live.folder)
            live.take_over_pause(seen.paused)
            await machine.changes.look(live)
            live.hold_members()
            machine.holders.hold(live)
            machine.keep(machine.changes.watch(live))
            machine.keep(self._make_ready(live))
            machine.guard(live)
        return live

    async def _make_ready(self, live: LiveAttempt) -> None:
        """Its pipe ended with the earlier agent: its status says when its ranks run."""
        status = await self._machine.looks.until(
            lambda: attempt_folders.read_status(live.folder),
            lambda status: status is not None or live.gone.done(),
            tries=None,
        )
        if not live.gone.done():
            live.set_ready(running=True, started_at=status.started_at if status else None)

"""The local engine: jobs as processes on this machine, under supervisors that outlive the engine.

Every order is handed to the runner of its job (runner.py). What the engine itself keeps is which
attempt occupies which device in which turn: nothing is launched onto a place before the attempt
that was there is gone and the device is clean.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from treadle.core.actions import Action, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device, Node
from treadle.core.errors import EngineError
from treadle.core.events import Event
from treadle.core.job import Job, JobId
from treadle.core.machine import NodeView
from treadle.core.ports import Abilities, Clock
from treadle.engines.inbox import Inbox
from treadle.engines.launch import Ended, JobBook, Launch
from treadle.engines.local import adoption
from treadle.engines.local.adoption import Adoption, Found
from treadle.engines.local.job_runner import ENGINE_ERROR, LOST, NOT_LAUNCHED, JobRunner, Launching
from treadle.engines.local.live_attempt import LiveAttempt
from treadle.engines.node import folders, processes
from treadle.engines.node.cgroup import Scopes
from treadle.engines.node.device_watch import OnDevice, Upkeep
from treadle.engines.node.devices import DeviceSource
from treadle.engines.node.environment import TAG
from treadle.engines.node.folders import Folders
from treadle.engines.node.nursery_client import Nursery, Surroundings, order_of

LOST_CODE = 137  # of ranks that were killed together with their supervisor
# Of looking for what must come or go soon; the pauses grow from 2 ms to half a second.
TRIES_TO_MEET = 16  # 4 s
TRIES_TO_KILL = 200  # 100 s

Seen = TypeVar("Seen")


class LocalEngine:
    """Carries orders out on this machine."""

    abilities = Abilities(share=True)

    def __init__(
        self,
        *,
        node: Node,
        devices: DeviceSource,
        book: JobBook,
        inbox: "asyncio.Queue[Event | None]",
        root: Path,
        clock: Clock,
        on_device: OnDevice = lambda _device, _open, _reason: None,
        around: Surroundings | None = None,
    ) -> None:
        self.book = book
        self.folders = Folders(root)
        self.nursery = Nursery()
        self.upkeep = Upkeep(
            devices,
            node.name,
            instance=self.folders.instance,
            clock=clock,
            on_device=on_device,
        )
        self.upkeep.supervisors = self._supervisors
        self.upkeep.held = self._held
        self._node = node
        self._devices = devices
        self._inbox = inbox
        self._clock = clock
        self._around = around or Surroundings.here()
        self._scopes = Scopes(self._around.cgroup)
        self._runners: dict[JobId, JobRunner] = {}
        self._places: dict[tuple[int, int], LiveAttempt] = {}
        self._helpers: set[asyncio.Task[None]] = set()

    # -- the controller's side ------------------------------------------------------------------

    async def carry_out(self, actions: Sequence[Action]) -> None:
        self.upkeep.begin()
        for action in actions:
            behind: list[LiveAttempt] = []
            if not isinstance(action, Stop):
                if self._is_over(action):
                    continue
                others = (self._runners.get(job) for job in action.after)
                behind = [other.live for other in others if other is not None and other.live]
            self._runner(action.job).order(action, behind)

    async def adopt(self, jobs: Iterable[Job]) -> None:
        """After a restart: take charge of what runs, report what ended, do what is owed.

        The end of an attempt may be told to the book a second time, if the engine before was
        killed between telling it and the moment that somebody wrote it down.
        """
        self.upkeep.begin()
        adoptions, strays = await asyncio.to_thread(adoption.plan, self.folders, list(jobs))
        # All that is alive is put in its place before anything is launched.
        for each in adoptions:
            await self._adopt(each)
        for stray in strays:
            await self._adopt_stray(stray)
        for each in adoptions:
            if each.owed is not None:
                self._runner(each.job).order(each.owed, [])

    async def close(self) -> None:
        """Look away; jobs run on."""
        for runner in list(self._runners.values()):
            await runner.leave()
        self._runners.clear()
        for task in self._helpers:
            task.cancel()
        await asyncio.gather(*self._helpers, return_exceptions=True)
        await self.upkeep.close()
        await asyncio.to_thread(self.nursery.close)

    def view(self) -> NodeView:
        """The machine as people see it."""
        jobs: dict[int, list[str]] = {}
        for (number, _), live in sorted(self._places.items(), key=lambda item: item[0]):
            jobs.setdefault(number, []).append(live.job)
        return NodeView(
            name=self._node.name,
            device_type=self._node.device_type,
            cores=self._node.cores,
            memory_gib=self._node.memory_gib,
            devices=tuple(
                self.upkeep.view(number, tuple(jobs.get(number, ())))
                for number in range(self._node.device_count)
            ),
        )

    # -- adopting -------------------------------------------------------------------------------

    async def _adopt(self, adopted: Adoption) -> None:
        if adopted.found is None:
            return
        live = await self._rejoin(adopted.found)
        runner = self._runner(adopted.job)
        runner.adopt(live, adopted.newest)
        if adopted.starting and adopted.owed is None:
            runner.announce(live)

    async def _adopt_stray(self, stray: Found) -> None:
        """Have it stopped; a dead one may still have left somebody behind."""
        if not stray.alive:
            if stray.status is None or not stray.status.ended:
                self._keep(self._kill_survivors(self._tag_of(stray)))
            self.folders.forget(stray.job, stray.number)
            return
        live = await self._rejoin(stray)
        live.stray = True
        runner = self._runner(stray.job)
        if runner.live is not None:  # Another attempt of that job is alive as well.
            runner = JobRunner(stray.job, self)
        runner.adopt(live, -1)

    async def _rejoin(self, found: Found) -> LiveAttempt:
        """An attempt of an earlier engine, watched again; gone at once if its supervisor is."""
        if found.alive and found.supervisor is None:  # It is only just beginning.
            found = await self._until(
                lambda: adoption.look(self.folders, found.job, found.number),
                lambda seen: not seen.alive or seen.supervisor is not None,
                tries=TRIES_TO_MEET,
            )
        live = LiveAttempt(
            found.job,
            found.number,
            action=found.action,
            allocation=found.allocation(self._node.name) or self._nowhere(),
            folder=found.folder,
            tag=self._tag_of(found),
        )
        supervisor = found.supervisor if found.alive else None
        live.watch(None if supervisor is None else supervisor.process)
        if not live.gone.done():
            self.occupy(live)
            self._keep(self._make_ready(live))
        return live

    async def _make_ready(self, live: LiveAttempt) -> None:
        """Nobody listens to its pipe any more: its status says when its ranks run."""
        await self._until(
            lambda: folders.read_status(live.folder),
            lambda status: status is not None or live.gone.done(),
            tries=None,
        )
        if not live.gone.done():
            live.set_ready(running=True)

    def _nowhere(self) -> Allocation:
        """For attempts that never came so far as to hold a device; it is not occupied."""
        return Allocation((Device(self._node.name, 0),))

    # -- the runners' side ----------------------------------------------------------------------

    def report(self, event: Event) -> None:
        self._inbox.put_nowait(event)

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep_until(self._clock.now() + seconds)

    def in_the_way(self, order: Launching) -> list[LiveAttempt]:
        turn = order.allocation.turn
        places = ((device.number, turn) for device in order.allocation.devices)
        return [self._places[place] for place in places if place in self._places]

    async def objection(self, order: Launching) -> str:
        return await self.upkeep.objection(device.number for device in order.allocation.devices)

    async def launch(self, order: Launching, launch: Launch) -> LiveAttempt:
        """Have a supervisor started; it reports when the ranks run."""
        self._check(order)
        folder = self.folders.make(launch.job, launch.attempt, action=order.id)
        tag = self._tag(launch.job, launch.attempt)
        live = LiveAttempt(
            launch.job,
            launch.attempt,
            action=order.id,
            allocation=order.allocation,
            folder=folder,
            tag=tag,
        )
        live.ranks = launch.ranks
        document = order_of(
            launch,
            order.allocation,
            action=order.id,
            folder=folder,
            tag=tag,
            uuids=self._devices.uuids,
            around=self._around,
            scope=self._scopes.make(tag),
        )
        try:
            live.listen(self.nursery.launch(document))
        except OSError:
            self._scopes.kill(tag)
            raise
        self.occupy(live)
        return live

    async def quicker(self, live: LiveAttempt) -> LiveAttempt | None:
        found = await asyncio.to_thread(adoption.look, self.folders, live.job, live.number)
        if not found.alive:
            return None
        other = await self._rejoin(found)
        other.ranks = live.ranks
        self._free(live)
        return other

    async def epitaph(self, live: LiveAttempt) -> Ended:
        """How it ended, from its folder; survivors of a killed supervisor are killed first."""
        status = folders.read_status(live.folder)
        told, error, code = LOST, "", LOST_CODE
        codes: tuple[int | None, ...] = ()
        if status is not None and status.ended:
            told, error, code, codes = status.told, status.error, status.code, status.codes
        elif live.failure:
            told, error, code = ENGINE_ERROR, live.failure, NOT_LAUNCHED
        if status is None or not status.ended:
            await self._kill_survivors(live.tag)
            with suppress(OSError):
                await asyncio.to_thread(folders.seal, live.folder, told)
        return Ended(
            job=live.job,
            attempt=live.number,
            action=live.action,
            code=code,
            codes=(*codes, *(None,) * (live.ranks - len(codes))),
            told=told,
            error=error,
            started_at=None if status is None else status.started_at,
            ended_at=None if status is None else status.ended_at,
            ran_s=None if status is None or not status.ended else status.ran_s,
            folder=live.folder,
        )

    async def release(self, live: LiveAttempt) -> None:
        """Its end has been reported: let others have its devices, once they are clean."""
        self.folders.forget(live.job, live.number)
        if self._devices.watched:
            self._keep(self._clean_and_free(live))
        else:
            self._free(live)

    def retire(self, runner: JobRunner) -> None:
        if self._runners.get(runner.job) is runner:
            del self._runners[runner.job]

    # -- leaves ---------------------------------------------------------------------------------

    def _is_over(self, order: Launching) -> bool:
        """Whether the job has ended while the order was being written down."""
        return isinstance(self._inbox, Inbox) and self._inbox.answers(order.job, order.id)

    def occupy(self, live: LiveAttempt) -> None:
        for place in live.places:
            self._places[place] = live

    async def _clean_and_free(self, live: LiveAttempt) -> None:
        numbers = {device.number for device in live.allocation.devices}
        live.over = True
        await self.upkeep.clean(numbers, live.tag, job=live.job)
        self._free(live)

    def _free(self, live: LiveAttempt) -> None:
        live.released = True
        for place in live.places:
            if self._places.get(place) is live:
                del self._places[place]
        for runner in list(self._runners.values()):
            runner.others_let_go()

    async def _kill_survivors(self, tag: str) -> None:
        self._scopes.kill(tag)
        await self._until(
            lambda: processes.kill_tagged(TAG, tag),
            lambda found: not found,
            tries=TRIES_TO_KILL,
        )

    async def _until(
        self, look: Callable[[], Seen], enough: Callable[[Seen], bool], *, tries: int | None
    ) -> Seen:
        """Look, in a thread, until it is enough or has been tried so often."""
        pause_s = 0.002
        for number in count(1):
            seen = await asyncio.to_thread(look)
            if enough(seen) or number == tries:
                break
            await self.sleep(pause_s)
            pause_s = min(0.5, pause_s * 2)
        return seen

    def _runner(self, job: JobId) -> JobRunner:
        if job not in self._runners:
            self._runners[job] = JobRunner(job, self)
        return self._runners[job]

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done beside everything else."""
        task = asyncio.get_running_loop().create_task(work)
        self._helpers.add(task)
        task.add_done_callback(self._helpers.discard)

    def _supervisors(self) -> list[int]:
        lives = (runner.live for runner in self._runners.values())
        return [live.process.pid for live in lives if live is not None and live.process is not None]

    def _held(self) -> set[int]:
        return {number for (number, _), live in self._places.items() if not live.over}

    def _tag(self, job: JobId, attempt: int) -> str:
        return f"{self.folders.instance}-{job}-{attempt}"

    def _tag_of(self, found: Found) -> str:
        return found.supervisor.tag if found.supervisor else self._tag(found.job, found.number)

    def _check(self, order: Launching) -> None:
        for device in order.allocation.devices:
            if device.node != self._node.name or device.number >= len(self._devices.uuids):
                raise EngineError(
                    f"job {order.job} was given device {device}, which this machine does not have",
                    retryable=False,
                )

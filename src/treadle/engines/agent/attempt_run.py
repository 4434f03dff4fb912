"""One attempt on this machine, from the order that begins it to its end.

A run is a small loop that does the next thing that is due. What is wanted of the attempt may change
at any time; only the newest counts:

    it was not launched yet    -> wait for its devices, launch
    it is to end               -> stop it, wait for its end
    it is to have other things -> have it change while it runs; say what came of it
    nothing                    -> wait for its end
"""

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from treadle.core.allocation import Allocation, Pause
from treadle.core.attempt import NOT_LAUNCHED_CODE, How
from treadle.core.errors import EngineError
from treadle.core.events import AttemptEnded, JobPaused, JobStarted, RankReplaced, TrainingEnded
from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.agent.live_changes import CHANGE_WITHIN_S
from treadle.engines.agent.machine_pause import TROUBLE, is_lack
from treadle.engines.agent.messages import Refused, Wanted
from treadle.engines.node.machine_probe import sentence

if TYPE_CHECKING:
    from treadle.engines.agent.machine import Machine

AGAIN_S = 0.5  # after an error of the machine


class AttemptRun:
    """What is wanted of an attempt, and what there is of it."""

    def __init__(self, wanted: Wanted, machine: "Machine") -> None:
        self.wanted = wanted
        self.live: LiveAttempt | None = None
        self._machine = machine
        self._launched = False
        self._asked = -1  # the order to change that its supervisor was given
        self._announced: tuple[str, ...] = ()  # what was reported of what it can change
        self._over = False  # its training was reported to have ended
        self._killed_told = 0  # so many of its ranks that were replaced were reported
        self._waiting = False  # for other attempts to release devices
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def id(self) -> AttemptId:
        return self.wanted.attempt

    @property
    def job(self) -> JobId:
        return self.wanted.attempt.job

    @property
    def is_to_end(self) -> bool:
        return self.wanted.allocation is None

    @property
    def begins(self) -> bool:
        """Whether what is wanted says how to launch it, and not how to change it."""
        launch = self.wanted.launch
        if self.wanted.allocation is None or self.wanted.allocation.paused:
            return False
        return launch is not None and launch.id == self.id

    @property
    def ranks(self) -> int:
        """How many it has; 0: not known."""
        return 0 if self.wanted.launch is None else self.wanted.launch.ranks

    # -- orders ---------------------------------------------------------------------------------

    def adopt(self, live: LiveAttempt) -> None:
        """It is there already: an earlier agent launched it, and reported what it was so far."""
        self.live, self._launched = live, True
        self._announced, self._killed_told = live.changes, len(live.killed)
        if live.action == self.wanted.action and not self.wanted.told:
            live.ready.add_done_callback(lambda _: self._started(live))
        self._watch(live)

    def order(self, wanted: Wanted) -> None:
        """Take what is wanted from now on."""
        if wanted.action >= self.wanted.action:
            launch = wanted.launch or self.wanted.launch
            self.wanted = replace(wanted, launch=launch)
            self._woken.set()

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.job)
        if self.live is not None:
            self.announced(self.live)

    def look_again(self) -> None:
        """Another attempt released a device, or does not end."""
        if self._waiting:
            self._woken.set()

    async def leave(self) -> None:
        """Stop watching; what runs keeps running."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.live is not None:
            self.live.close()

    # -- the loop -------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while not self._launched or self.live is not None:
                self._woken.clear()
                try:
                    await self._next()
                except Exception as error:  # a bug in one job's orders must not stop other jobs
                    logging.getLogger(__name__).exception("job %s", self.job)
                    if is_lack(error):  # It says nothing about the job: do it again.
                        await self._machine.suspect()
                        await asyncio.sleep(AGAIN_S)
                    else:
                        await self._give_up(f"the engine failed: {error!r}")
        finally:
            self._machine.retire(self)

    async def _next(self) -> None:
        live, allocation = self.live, self.wanted.allocation
        if live is None:
            if allocation is None:
                return self._nothing_runs()
            return await self._begin(allocation)
        if live.gone.done():
            return await self._finish(live)
        if allocation is None or live.stray:
            live.stop()
        elif self.wanted.action > live.action:
            if _is_of_pause(live, allocation):
                return await self._pause(live, self.wanted.action, allocation)
            return await self._change(live, self.wanted, allocation)
        await self._woken.wait()
        return None

    async def _wait_for_devices(self) -> None:
        self._waiting = True
        await self._woken.wait()
        self._waiting = False

    def _watch(self, live: LiveAttempt) -> None:
        live.on_members = self.announced
        live.gone.add_done_callback(lambda _: self._woken.set())

    # -- launching ------------------------------------------------------------------------------

    async def _begin(self, allocation: Allocation) -> None:
        wanted = self.wanted
        if self._machine.in_the_way(allocation):
            if self._machine.is_stuck(allocation):  # Other devices may be free.
                return self._nothing_runs()
            return await self._wait_for_devices()
        try:
            if await self._machine.objection(allocation):
                return self._nothing_runs()  # The job is not at fault: back to the queue.
            if self.wanted is wanted:
                await self._launch(allocation)
        except TROUBLE as error:
            if not is_lack(error):
                raise
            await self._machine.suspect()
            self._not_launched(How.MACHINE_ERROR, sentence(error))
        except EngineError as error:
            self._not_launched(How.ENGINE_ERROR, str(error))
        return None

    async def _launch(self, allocation: Allocation) -> None:
        launch = self.wanted.launch
        if launch is None:
            raise EngineError(f"it is not said how to launch job {self.job}", retryable=False)
        live = self._machine.attempt(launch, allocation, self.wanted.action)
        self._launched = True
        await self._machine.launch(live)
        self.live = live
        self._watch(live)
        live.ready.add_done_callback(lambda _: self._started(live))

    def _nothing_runs(self) -> None:
        self._launched = True
        self._machine.tell(AttemptEnded(self.job, self.wanted.action, 0, How.STOPPED))

    def _not_launched(self, how: How, why: str) -> None:
        """Nothing was launched, and the job is not at fault."""
        self._launched = True
        self._tell_error(how, why)

    def _tell_error(self, how: How, why: str) -> None:
        code = NOT_LAUNCHED_CODE if how is How.ENGINE_ERROR else None
        number, action = self.id.number, self.wanted.action
        self._machine.tell(AttemptEnded(self.job, action, number, how, code, error=why))

    # -- while it runs --------------------------------------------------------------------------

    def _started(self, live: LiveAttempt) -> None:
        """Its ranks run, or never will."""
        runs = not live.ready.cancelled() and live.ready.result()
        if not runs or self.live is not live or self._is_owed(live):
            return
        held = live.allocation
        if held is not None and held.paused:
            self._tell_paused(live, held.paused)
        else:
            self._tell_started(live)

    def _is_owed(self, live: LiveAttempt) -> bool:
        """Whether an order about it has no answer yet."""
        return self.wanted.allocation is None or self.wanted.action > live.action

    def _tell_started(
        self,
        live: LiveAttempt,
        stall_s: float | None = None,
        refused: str = "",
        took_s: float | None = None,
    ) -> None:
        self._announced = live.changes
        launch = self.wanted.launch
        if launch is None:  # Its controller cannot say.
            return
        self._machine.tell(
            JobStarted(
                self.job,
                live.action,
                launch.iterations_done,
                launch.iterations_per_s,
                live.changes,
                attempt=live.number,
                started_at=live.started_at,
                stall_s=stall_s,
                refused=refused,
                pauses=self._machine.pauses.of(live),
                took_s=took_s,
            )
        )

    def _tell_paused(self, live: LiveAttempt, how: Pause, refused: str = "") -> None:
        known = live.pause
        took_s = None if known.said is None else known.said["took_s"]
        job, number, gib = self.job, live.number, known.device_gib
        fact = JobPaused(job, live.action, how, number, memory_gib=gib, took_s=took_s)
        self._machine.tell(replace(fact, refused=refused))

    def announced(self, live: LiveAttempt) -> None:
        """It said what it can change, or what became of a change."""
        self._woken.set()
        self._machine.changes.free_dropped(live)
        if live is not self.live or not live.runs or live.stray:
            return
        if live.changes != self._announced and not self._is_owed(live):
            self._tell_started(live)
        if live.ending and not self._over:
            self._over = True
            self._machine.tell(TrainingEnded(self.job, self.wanted.action))
        for rank, code in live.killed[self._killed_told :]:
            action = self.wanted.action
            self._machine.tell(RankReplaced(self.job, action, live.number, rank, code))
        self._killed_told = len(live.killed)

    async def _change(self, live: LiveAttempt, wanted: Wanted, allocation: Allocation) -> None:
        """Have the attempt carry out the order, up to the next thing that happens."""
        if live.refused >= wanted.action:
            return self._refuse(live, live.refused_why)
        if self._asked == wanted.action:
            if live.members.get("action") == wanted.action:
                self._machine.changes.reached(live, wanted.action, allocation)
                if live.launch is not None and wanted.launch is not None:
                    live.launch = replace(wanted.launch, attempt=live.number, nonce=live.nonce)
                return self._tell_started(live, live.members.get("stall_s"))
            return await self._wait_for_answer(live)
        if any(other is not live for other in self._machine.in_the_way(allocation)):
            if self._machine.is_stuck(allocation):
                return self._refuse(live, "a device is still in use")
            return await self._wait_for_devices()
        try:
            objection = await self._machine.objection(allocation)
            launch = wanted.launch
            if objection or launch is None or launch.ranks != allocation.size:
                self._refuse(live, objection)
            elif self.wanted is wanted:
                await self._machine.changes.order(live, wanted.action, allocation, launch)
                self._asked = wanted.action
        except (EngineError, *TROUBLE) as error:
            self._refuse(live, str(error))
        return None

    async def _pause(self, live: LiveAttempt, action: int, allocation: Allocation) -> None:
        """Have it paused, or go on; it may say that it cannot, and stays as it is then."""
        pauses, said = self._machine.pauses, live.pause.said
        if said is not None and said["action"] == action:
            how = Pause(said["how"]) if said["how"] else None
            live.action, self._asked = action, -1
            if said["why"] and allocation.paused is Pause.SUSPENDED:
                live.pause.cannot_suspend = said["why"]
            pauses.reached(live, allocation.as_paused(how))
            if how is None:
                return self._tell_started(live, refused=said["why"], took_s=said["took_s"])
            return self._tell_paused(live, how, said["why"])
        if self._asked == action:
            return await self._wait_for_answer(live, within_s=None)
        if not allocation.paused:
            if any(other is not live for other in self._machine.in_the_way(allocation)):
                return await self._wait_for_devices()
            self._machine.holders.keep(live, allocation)
        await pauses.order(live, action, allocation.paused)
        self._asked = action
        return None

    def _refuse(self, live: LiveAttempt, why: str) -> None:
        """The attempt goes on with what it has. Whether that will do, its controller decides."""
        action = self.wanted.action
        if live.allocation is not None:
            self._machine.changes.reached(live, action, live.allocation)
        live.action, live.refused = action, max(live.refused, action)
        self._announced = live.changes
        refused = Refused(self.job, action, live.number, live.changes, why, live.started_at)
        self._machine.tell(refused)

    async def _wait_for_answer(
        self, live: LiveAttempt, within_s: float | None = CHANGE_WITHIN_S
    ) -> None:
        """Until it answers, is gone, or an order comes; for too long means no."""
        live.told.clear()
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._woken.wait()),
            asyncio.ensure_future(self._machine.changes.answer(live)),
        ]
        try:
            done, _ = await asyncio.wait(
                {*tasks, live.gone}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in tasks:
                task.cancel()
        if not done:
            self._refuse(live, "")

    # -- ends -----------------------------------------------------------------------------------

    async def _finish(self, live: LiveAttempt) -> None:
        """It has ended: report it, then release its devices."""
        if live.taken and (rival := await self._machine.rival(live)) is not None:
            self.live = rival  # An earlier agent launched it; watch that one instead.
            rival.stray, rival.silent = live.stray, live.silent
            self._watch(rival)
            if not rival.stray:
                rival.ready.add_done_callback(lambda _: self._started(rival))
            return
        ended = await self._machine.end_of(live)
        if ended is None:  # Look for its rival.
            return
        self.live = None
        ended = replace(ended, action=self.wanted.action)
        if live.stray:
            ended = replace(ended, how=How.REPLACED)
        elif ended.how is How.LOST and live.stop_wanted:
            ended = replace(ended, how=How.STOPPED)
        if not live.silent:
            self._machine.tell(ended)
        await self._machine.release(live)

    async def _give_up(self, why: str) -> None:
        """End it after an error that this class does not handle."""
        live, self._launched = self.live, True
        if live is not None:
            live.stop()
            await live.gone
        self.live = None
        self._tell_error(How.ENGINE_ERROR, why)
        if live is not None:
            await self._machine.release(live)


def _is_of_pause(live: LiveAttempt, allocation: Allocation) -> bool:
    """Whether an order only pauses it or lets it go on, or asks again for what it has."""
    if live.allocation is None:
        return bool(allocation.paused)
    different = live.allocation.differences(allocation)
    part = None if live.launch is None else live.launch.part
    # Of members over nodes, its part of a change may be to stay as it is.
    members = live.members or (part is not None and part.team is not None)
    return different == ("paused",) or not (different or members)

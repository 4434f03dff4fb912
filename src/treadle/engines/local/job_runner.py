"""Carries out the orders about one job.

A runner is a small loop that does the next thing that is due. A newer order replaces an older one,
so there is no separate case for each pair of orders:

    an attempt runs and can carry out   -> have it change while it runs
      the order itself
    an attempt could not be given more  -> it goes on with what it has
    an attempt's training is over, and  -> wait for its end
      an order to change it came
    an attempt runs and an order came   -> stop the attempt, wait for its end
    an attempt runs                     -> wait for its end or for an order
    an order to stop                    -> answer it
    an order to launch                  -> wait for the devices, launch
    nothing                             -> the runner ends
"""

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, Protocol

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.attempt import NOT_LAUNCHED_CODE, How
from treadle.core.errors import EngineError
from treadle.core.events import AttemptEnded, Event, JobStarted, RankReplaced, TrainingEnded
from treadle.core.job import JobId
from treadle.core.launch import Launch
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.agent.live_changes import CHANGE_WITHIN_S, LiveChanges
from treadle.engines.agent.machine_pause import TROUBLE, is_lack
from treadle.engines.node.machine_probe import sentence

AGAIN_S = 0.5  # after an error of the machine
Launching = Start | Change


class Machine(Protocol):
    """What a runner needs of its engine."""

    def tell(self, fact: Event) -> None: ...
    # Asks the controller how to launch the job for that order.
    def ask(self, order: Launching) -> Launch: ...
    # The attempts that must release devices before that order is carried out.
    def in_the_way(self, order: Launching) -> list[LiveAttempt]: ...
    # Whether an attempt that cannot be ended holds one of those devices.
    def is_stuck(self, order: Launching) -> bool: ...
    # Why nothing may be launched on those devices now; empty if it may.
    async def objection(self, order: Launching) -> str: ...
    # The attempt for that order, which holds the devices; then launch it.
    def attempt(self, order: Launching, launch: Launch) -> LiveAttempt: ...
    async def launch(self, live: LiveAttempt) -> None: ...
    # A launch failed for want of something of the machine; returns once the machine was probed.
    async def suspect(self) -> None: ...
    # Another supervisor that has the same attempt already, if it is alive.
    async def rival(self, live: LiveAttempt) -> LiveAttempt | None: ...
    # None if another supervisor has it by now.
    async def end_of(self, live: LiveAttempt) -> AttemptEnded | None: ...
    async def release(self, live: LiveAttempt) -> None: ...
    def retire(self, runner: "JobRunner") -> None: ...

    # Changes of attempts that run.
    changes: LiveChanges


class JobRunner:
    """The newest orders about one job, and the attempt of it that runs."""

    def __init__(self, job: JobId, machine: Machine) -> None:
        self.job = job
        self.live: LiveAttempt | None = None
        self._coming: LiveAttempt | None = None  # it is being launched
        self._machine = machine
        self._stop: int | None = None  # id of a stop that has no answer yet
        self._launch: Launching | None = None
        self._newest = -1  # id of the newest order
        self._behind: list[LiveAttempt] = []  # they must release their devices before the launch
        self._asked: Launching | None = None  # the running attempt was given this order
        self._asked_launch: Launch | None = None
        self._announced: tuple[str, ...] = ()  # what was reported of what it can change
        self._over: LiveAttempt | None = None  # its training was reported to have ended
        # By attempt: of its ranks that were killed and replaced, so many were reported.
        self._killed_told: dict[int, int] = {}
        self._waiting = False  # for other attempts to release devices
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether an attempt runs or an order has no answer yet."""
        return self.live is not None or self._stop is not None or self._launch is not None

    @property
    def attempt(self) -> LiveAttempt | None:
        """The attempt that runs or is being launched."""
        return self.live or self._coming

    @property
    def launching(self) -> bool:
        """Whether an order to launch has not been carried out yet."""
        return self._launch is not None

    # -- orders ---------------------------------------------------------------------------------

    def order(self, action: Action, behind: list[LiveAttempt]) -> None:
        """Take an order; it replaces earlier ones."""
        self._newest = max(self._newest, action.id)
        if isinstance(action, Stop):
            self._stop, self._launch = action.id, None
        else:
            self._launch, self._behind = action, behind
        self.go_on()

    def adopt(self, live: LiveAttempt, newest: int) -> None:
        """Take over an attempt that an earlier engine launched."""
        self.live = live
        self._newest = max(self._newest, newest)
        self._announced = live.changes
        self._killed_told[live.number] = len(live.killed)  # The engine before has reported them.
        live.on_members = self.announced
        self.go_on()
        self.announced(live)

    def go_on(self) -> None:
        self._woken.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self.job)

    def devices_were_released(self) -> None:
        """Another attempt released a device."""
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
            while self.busy:
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
            self._task = None
            self._machine.retire(self)

    async def _next(self) -> None:
        live = self.live
        order = self._launch
        if live is not None and order is not None and self._may_change(live, order):
            return await self._change(live, order)
        if live is not None and order is not None and self._stays(live, order):
            return self._keep(live, order)
        if live is not None:
            # One whose training is over would lose it all if it were stopped and launched again.
            replaced = self._launch is not None and not live.ending
            if self._stop is not None or replaced or live.stray:
                live.stop()
            if await self._either(live.gone):
                await self._finish(live)
        elif self._stop is not None:
            stop, self._stop = self._stop, None
            self._nothing_runs(stop)
        elif self._launch is not None:
            await self._begin(self._launch)
        return None

    # -- changes while it runs ------------------------------------------------------------------

    def _may_change(self, live: LiveAttempt, order: Launching) -> bool:
        waits = self._stop is None and not live.stray
        return waits and self._machine.changes.possible(live, order)

    def _stays(self, live: LiveAttempt, order: Launching) -> bool:
        wanted = self._stop is None and not live.stray and not live.gone.done()
        return wanted and self._machine.changes.stays(live, order)

    def _keep(self, live: LiveAttempt, order: Launching) -> None:
        """The attempt goes on as it is, and that answers the order."""
        assert live.allocation is not None, "it could not be given more than it has"
        self._launch = self._asked = self._asked_launch = None
        self._machine.changes.reached(live, replace(order, allocation=live.allocation))
        self._tell_started(live, self._launch_of(live), refused=live.refused_why)

    async def _change(self, live: LiveAttempt, order: Launching) -> None:
        """Have the attempt carry out the order, up to the next thing that happens."""
        if any(other is not live for other in self._blockers(order)):
            if self._machine.is_stuck(order):
                live.refused, live.refused_why = order.id, "a device is still in use"
                return
            self._waiting = True
            if await self._either(live.gone):
                await self._finish(live)
            self._waiting = False
            return
        self._behind = []
        if self._asked is not order:
            await self._ask_for_change(live, order)
            return
        if not _is_answered(live, order):
            await self._wait_for_answer(live, order)
        if live.gone.done():
            await self._finish(live)
        elif self._launch is order and live.members.get("action") == order.id:
            self._changed(live, order)

    async def _wait_for_answer(self, live: LiveAttempt, order: Launching) -> None:
        """Until it answers, is gone, or an order comes; for too long means no."""
        live.told.clear()
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._woken.wait()),
            asyncio.ensure_future(self._machine.changes.answer(live)),
        ]
        try:
            done, _ = await asyncio.wait(
                {*tasks, live.gone}, timeout=CHANGE_WITHIN_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in tasks:
                task.cancel()
        if not done:
            live.refused, live.refused_why = order.id, ""

    async def _ask_for_change(self, live: LiveAttempt, order: Launching) -> None:
        try:
            launch = self._machine.ask(order)
            objection = await self._machine.objection(order)
            if objection or launch.ranks != order.allocation.size:
                # If it was not to have more, it is stopped, and the order carried out as usual.
                live.refused, live.refused_why = order.id, objection
            elif self._launch is order:
                await self._machine.changes.order(live, order, launch)
                self._asked, self._asked_launch = order, launch
        except (EngineError, *TROUBLE) as error:
            live.refused, live.refused_why = order.id, str(error)

    def _changed(self, live: LiveAttempt, order: Launching) -> None:
        """It was carried out: the attempt goes on under that order."""
        launch = self._asked_launch
        assert launch is not None
        self._launch = self._asked = self._asked_launch = None
        self._machine.changes.reached(live, order)
        if live.launch is not None:
            live.launch = replace(launch, attempt=live.number, nonce=live.nonce)
        self._tell_started(live, launch, stall_s=live.members.get("stall_s"))

    def announced(self, live: LiveAttempt) -> None:
        """It said what it can change, or what became of a change."""
        self._machine.changes.free_dropped(live)
        known = live is self.live and live.runs and not live.stray
        waits = self._stop is not None or self._launch is not None
        if known and live.changes != self._announced and not waits:
            self._tell_started(live, self._launch_of(live))
        if known and live.ending and self._over is not live:
            self._over = live
            self._machine.tell(TrainingEnded(self.job, self._newest))
        if known:
            self._tell_killed(live)

    def _tell_killed(self, live: LiveAttempt) -> None:
        """Report ranks that were killed and replaced, each once."""
        told = self._killed_told.get(live.number, 0)
        for rank, code in live.killed[told:]:
            self._machine.tell(RankReplaced(self.job, self._newest, live.number, rank, code))
        self._killed_told = {live.number: len(live.killed)}

    async def _either(self, wanted: Awaitable[object]) -> bool:
        """Wait for it or for an order; whether it came."""
        future = asyncio.ensure_future(wanted)
        order = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait({future, order}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            order.cancel()
        return future.done()

    # -- launching ------------------------------------------------------------------------------

    async def _begin(self, order: Launching) -> None:
        if self._blockers(order):
            await self._wait_for_devices(order)
            return
        self._behind = []
        launch: Launch | None = None
        try:
            launch = self._machine.ask(order)
            objection = await self._machine.objection(order)
            if self._launch is not order:
                return
            if objection:  # Nothing was launched and the job is not at fault: back to the queue.
                self._launch = None
                self._nothing_runs(order.id)
                return
            live = await self._launched(order, launch)
        except TROUBLE as error:
            if not is_lack(error):
                raise
            await self._machine.suspect()
            if self._launch is order:
                self._not_launched(How.MACHINE_ERROR, sentence(error), launch)
            return
        except EngineError as error:
            if self._launch is order:
                self._not_launched(How.ENGINE_ERROR, str(error), launch)
            return
        self.live = live
        if self._launch is order:
            self._launch = None
        self.announce(live)

    def _blockers(self, order: Launching) -> list[LiveAttempt]:
        """The attempts that must release devices before the order can be carried out.

        One that changes while it runs releases some and keeps others: only the devices count.
        """
        behind = [other for other in self._behind if not other.released and not other.changes]
        return behind + self._machine.in_the_way(order)

    async def _wait_for_devices(self, order: Launching) -> None:
        if self._machine.is_stuck(order):  # Back to the queue: other devices may be free.
            self._launch, self._behind = None, []
            self._nothing_runs(order.id)
            return
        self._waiting = True
        await self._woken.wait()
        self._waiting = False

    async def _launched(self, order: Launching, launch: Launch) -> LiveAttempt:
        self._coming = live = self._machine.attempt(order, launch)
        try:
            await self._machine.launch(live)
        finally:
            self._coming = None
        return live

    def announce(self, live: LiveAttempt) -> None:
        """Report its start as soon as its ranks run, and later what it can change."""
        live.on_members = self.announced
        live.ready.add_done_callback(lambda _: self._started(live))

    def _started(self, live: LiveAttempt) -> None:
        """Its ranks run, or never will."""
        superseded = self._stop is not None or self._launch is not None
        if live.ready.cancelled() or not live.ready.result() or superseded:
            return
        self._tell_started(live, self._launch_of(live))

    def _launch_of(self, live: LiveAttempt) -> Launch:
        if live.launch is None:  # An earlier engine launched it: ask again.
            assert live.allocation is not None, "only an attempt of a known order is announced"
            live.launch = self._machine.ask(Start(live.action, live.job, live.allocation))
        return live.launch

    def _tell_started(
        self, live: LiveAttempt, launch: Launch, stall_s: float | None = None, refused: str = ""
    ) -> None:
        self._announced = live.changes
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
            )
        )

    # -- ends -----------------------------------------------------------------------------------

    async def _finish(self, live: LiveAttempt) -> None:
        """An attempt has ended: report it, then release its devices."""
        if live.taken and (rival := await self._machine.rival(live)) is not None:
            self.live = rival  # An earlier engine launched it; watch that one instead.
            rival.stray, rival.silent = live.stray, live.silent
            if not rival.stray:
                self.announce(rival)
            return
        ended = await self._machine.end_of(live)
        if ended is None:  # Look for its rival.
            return
        self.live = None
        if live.stray:
            ended = replace(ended, how=How.REPLACED)
        else:
            ended = self._answer(ended, stop_wanted=live.stop_wanted)
        if not live.silent:
            self._machine.tell(ended)
        await self._machine.release(live)

    def _answer(self, ended: AttemptEnded, *, stop_wanted: bool) -> AttemptEnded:
        """The end as the answer to the newest order."""
        if ended.how is not How.STOPPED and not (ended.how is How.LOST and stop_wanted):
            # It ended by itself, which answers all orders that came meanwhile.
            self._stop = self._launch = None
            return replace(ended, action=self._newest)
        if self._stop is not None:
            stop, self._stop = self._stop, None
            return replace(ended, how=How.STOPPED, action=stop)
        if self._launch is not None:
            return replace(ended, how=How.REPLACED, action=self._newest)
        # It was stopped from outside: the machine shuts down, perhaps.
        return replace(ended, how=How.STOPPED, action=self._newest)

    async def _give_up(self, why: str) -> None:
        """End the job after an error that this class does not handle."""
        live = self.live
        if live is not None:
            live.stop()
            await live.gone
        self.live = self._stop = self._launch = None
        self._tell_error(How.ENGINE_ERROR, why, 0 if live is None else live.number)
        if live is not None:
            await self._machine.release(live)

    def _not_launched(self, how: How, why: str, launch: Launch | None) -> None:
        """Nothing was launched, and the job is not at fault.

        launch: None if the controller did not say how to launch it.
        """
        self._stop = self._launch = None
        self._tell_error(how, why, 0 if launch is None else launch.attempt)

    def _tell_error(self, how: How, why: str, attempt: int) -> None:
        code = NOT_LAUNCHED_CODE if how is How.ENGINE_ERROR else None
        self._machine.tell(AttemptEnded(self.job, self._newest, attempt, how, code, error=why))

    def _nothing_runs(self, action: int) -> None:
        """Answer an order after which nothing runs of the job."""
        self._machine.tell(AttemptEnded(self.job, action, 0, How.STOPPED))


def _is_answered(live: LiveAttempt, order: Launching) -> bool:
    return live.members.get("action") == order.id or live.refused >= order.id

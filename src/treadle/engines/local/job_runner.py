"""One job in the engine's hands: the newest orders about it, and what runs of it.

A runner is a small loop that always does the one thing that is due: stop what runs if an order
wants something else, answer a stop, launch what is to be launched, or wait. A newer order replaces
an older one by being written over it, so that there is no case for each pair of orders.

    runs, and an order is there    -> stop it, and wait for its end
    runs                           -> wait for its end, or for an order
    an order to stop               -> answer it
    an order to launch             -> wait for the devices, launch
    nothing                        -> leave
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.errors import EngineError
from treadle.core.events import Event, JobFailed, JobFinished, JobStarted, JobStopped
from treadle.core.job import JobId
from treadle.engines.launch import Ended, JobBook, Launch
from treadle.engines.local.live_attempt import LiveAttempt

ENGINE_ERROR = "engine-error"  # the reason of failures that are the machine's and not the job's
STOPPED, LOST = "stopped", "lost"
NOT_LAUNCHED = 126  # the code of an attempt that never was, as shells say it

Launching = Start | Change


class Workshop(Protocol):
    """What a runner needs of its engine."""

    book: JobBook

    def report(self, event: Event) -> None: ...
    # The attempts that must let go before that order is carried out.
    def in_the_way(self, order: Launching) -> list[LiveAttempt]: ...
    # Why nothing may be launched there now; empty if it may.
    async def objection(self, order: Launching) -> str: ...
    async def launch(self, order: Launching, launch: Launch) -> LiveAttempt: ...
    # The supervisor that was quicker than this one, if it is still there.
    async def quicker(self, live: LiveAttempt) -> LiveAttempt | None: ...
    async def epitaph(self, live: LiveAttempt) -> Ended: ...
    async def release(self, live: LiveAttempt) -> None: ...
    def retire(self, runner: "JobRunner") -> None: ...


class JobRunner:
    """Carries out the orders about one job."""

    def __init__(self, job: JobId, workshop: Workshop) -> None:
        self.job = job
        self.live: LiveAttempt | None = None
        self._workshop = workshop
        self._stop: int | None = None  # id of a stop that is to be answered
        self._launch: Launching | None = None
        self._newest = -1  # id of the newest order
        self._behind: list[LiveAttempt] = []  # who must let go before the launch
        self._waiting = False  # for others to let go
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # -- orders ---------------------------------------------------------------------------------

    def order(self, action: Action, behind: list[LiveAttempt]) -> None:
        """Take an order; what it replaces is forgotten."""
        self._newest = max(self._newest, action.id)
        if isinstance(action, Stop):
            self._stop, self._launch = action.id, None
        else:
            self._launch, self._behind = action, behind
        self.go_on()

    def adopt(self, live: LiveAttempt, newest: int) -> None:
        """Take charge of what an earlier engine had launched."""
        self.live = live
        self._newest = max(self._newest, newest)
        self.go_on()

    def go_on(self) -> None:
        self._woken.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self.job)

    def others_let_go(self) -> None:
        """Somebody has let go of a device."""
        if self._waiting:
            self._woken.set()

    async def leave(self) -> None:
        """Stop looking; whatever runs, runs on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.live is not None:
            self.live.close()

    # -- the loop -------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while self.live is not None or self._stop is not None or self._launch is not None:
                self._woken.clear()
                try:
                    await self._next()
                except Exception:  # one job's trouble must not become the others'
                    logging.getLogger(__name__).exception("job %s", self.job)
                    await self._give_up()
        finally:
            self._task = None
            self._workshop.retire(self)

    async def _next(self) -> None:
        live = self.live
        if live is not None:
            if self._stop is not None or self._launch is not None or live.stray:
                live.stop()
            if await self._either(live.gone):
                await self._bury(live)
        elif self._stop is not None:
            stop, self._stop = self._stop, None
            self._stopped(stop)
        elif self._launch is not None:
            await self._begin(self._launch)

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
        if any(not other.released for other in self._behind) or self._workshop.in_the_way(order):
            self._waiting = True
            await self._woken.wait()
            self._waiting = False
            return
        self._behind = []
        launch: Launch | None = None
        try:
            launch = self._workshop.book.launch(self.job, order.id, order.allocation)
            objection = await self._workshop.objection(order)
            if self._launch is not order:
                return
            if objection:  # Nothing was launched and nothing is wrong with it: back to the queue.
                self._launch = None
                self._stopped(order.id)
                return
            live = await self._workshop.launch(order, launch)
        except (OSError, EngineError) as error:
            if self._launch is order:
                self._fail_launch(str(error), order, launch)
            return
        self.live = live
        if self._launch is order:
            self._launch = None
        self.announce(live)

    def _started(self, live: LiveAttempt) -> None:
        """Its ranks run, or never will."""
        superseded = self._stop is not None or self._launch is not None
        if live.ready.cancelled() or not live.ready.result() or superseded:
            return
        done, speed = self._workshop.book.begun(self.job, live.action, live.allocation)
        self._workshop.report(JobStarted(self.job, live.action, done, speed))

    def announce(self, live: LiveAttempt) -> None:
        """Report its start as soon as its ranks run."""
        live.ready.add_done_callback(lambda _: self._started(live))

    # -- ends -----------------------------------------------------------------------------------

    async def _bury(self, live: LiveAttempt) -> None:
        """An attempt has ended: say so, then let others have its devices."""
        if live.taken and (quicker := await self._workshop.quicker(live)) is not None:
            self.live = quicker  # An earlier engine had it launched; that one is watched instead.
            self.announce(quicker)
            return
        ended = await self._workshop.epitaph(live)
        self.live = None
        try:
            if not live.stray:
                self._tell_end(ended, stop_wanted=live.stop_wanted)
        finally:
            await self._workshop.release(live)

    def _tell_end(self, ended: Ended, *, stop_wanted: bool) -> None:
        reason = self._workshop.book.ended(ended)
        if ended.told == STOPPED or (ended.told == LOST and stop_wanted):
            self._let_go()
        else:
            self._ended_by_itself(ended, reason)

    def _let_go(self) -> None:
        if self._stop is not None:
            stop, self._stop = self._stop, None
            self._stopped(stop)
        elif self._launch is None:  # Somebody else stopped it: the machine shuts down, perhaps.
            self._stopped(self._newest)

    def _ended_by_itself(self, ended: Ended, reason: str) -> None:
        """The fact wins over whatever was ordered meanwhile, and answers it."""
        self._stop = self._launch = None
        if ended.code == 0 and not ended.told and not ended.error:
            self._workshop.report(JobFinished(self.job, self._newest))
            return
        self._failed(ENGINE_ERROR if ended.told == ENGINE_ERROR else reason)

    async def _give_up(self) -> None:
        """Something went wrong that nobody thought of."""
        live, self.live = self.live, None
        self._stop = self._launch = None
        if live is not None:
            live.stop()
            await live.gone
            await self._workshop.release(live)
        self._failed(ENGINE_ERROR)

    def _fail_launch(self, sentence: str, order: Launching, launch: Launch | None) -> None:
        """Nothing came to run, and that is the machine's fault and not the job's.

        launch: None if not even the book could say how to launch it.
        """
        self._stop = self._launch = None
        self._workshop.book.ended(
            Ended(
                job=self.job,
                attempt=0 if launch is None else launch.attempt,
                action=order.id,
                code=NOT_LAUNCHED,
                codes=(),
                told=ENGINE_ERROR,
                error=sentence,
            )
        )
        self._failed(ENGINE_ERROR)

    def _failed(self, reason: str) -> None:
        done = self._workshop.book.done(self.job)
        self._workshop.report(JobFailed(self.job, self._newest, done, reason))

    def _stopped(self, action: int) -> None:
        done = self._workshop.book.done(self.job)
        self._workshop.report(JobStopped(self.job, action, done))

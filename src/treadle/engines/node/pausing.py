"""Pauses of one attempt, as its supervisor carries them out.

    frozen      no process of the group runs; what they have of device memory stays there
    suspended   the driver has moved that memory to the host's first (cuda_suspend.py), in a process
                of its own, because that takes seconds

The engine writes what it wants into a file and sends SIGUSR1. What was reached is written for an
engine after this one, and said on the supervisor's pipe. If something goes wrong, the attempt stays
as it was, and it is said why. Time in which it is paused is no time of it.

Part of the supervisor: it imports the standard library alone.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from treadle.engines.node import cuda_suspend
from treadle.engines.node.pause_files import NEVER, REACHED, away_s, read_wanted, write
from treadle.engines.node.scope import Scope

RUNS, FROZEN, SUSPENDED = "", "frozen", "suspended"
NOT_STILL = "not all of its processes stand still"
STILL_EVERY_S = 1.0  # looks at a paused attempt, which anybody's SIGCONT wakes but in a cgroup v2
LOOKS_MAX = 8  # at descendants that fork while they are stopped
SAID_BYTES_MAX = 4096


class Pausing:
    """Whether the attempt computes, and what is under way to change that."""

    def __init__(
        self,
        folder: str,
        scope: Scope,
        look: Callable[[], None],
        tell: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """look: write down descendants, where the kernel keeps no group of them."""
        self._folder, self._scope, self._look, self._tell = folder, scope, look, tell
        self._reached = dict(NEVER)
        self._action = -1  # the newest order
        self._how = RUNS  # as it says
        self._began, self._before = 0.0, RUNS  # when it came, and what it was then
        self._helper: int | None = None  # a pipe from the process that suspends or resumes
        self._resumes = False  # what that process does
        self._look_at = 0.0  # when to see again that a paused one stands still
        self._leaving = False  # it has to stop: no order counts any more

    @property
    def paused(self) -> bool:
        return bool(self._reached["how"])

    @property
    def helper(self) -> int | None:
        """To be polled."""
        return self._helper

    def away_s(self, now: float) -> float:
        """For how long it was paused, in all."""
        return away_s(self._reached, now)

    @property
    def due(self) -> float | None:
        return self._look_at if self._rests else None

    @property
    def _rests(self) -> bool:
        """It is paused, and is to stay so."""
        return self.paused and self._reached["how"] == self._how and self._helper is None

    def keep_still(self, now: float) -> None:
        """Stop again what somebody else let go on."""
        if self._rests and now >= self._look_at:
            self._look()
            self._scope.freeze()
            self._look_at = now + STILL_EVERY_S

    # -- orders ---------------------------------------------------------------------------------

    def take_wanted(self, now: float) -> None:
        """Read the engine's newest order."""
        wanted = read_wanted(self._folder)
        if wanted is None or self._leaving:
            return
        if wanted["action"] <= self._action:
            if self._action == self._reached["action"]:  # It was asked again.
                self._write()
            return
        self._action, self._how = wanted["action"], wanted["how"]
        self._began, self._before = now, self._reached["how"]
        self._reached["why"] = wanted["why"]
        self._go_on(now)

    def leave(self, now: float) -> None:
        """It has to stop, by a signal that it hears once it runs."""
        self._leaving, self._how = True, RUNS
        self._go_on(now)

    @property
    def is_lost(self) -> bool:
        """It has to stop, and cannot run again to hear so."""
        return self._leaving and self.paused and self._helper is None

    # -- inside ---------------------------------------------------------------------------------

    def _go_on(self, now: float) -> None:
        """The next step from what it is to what it is to be."""
        if self._helper is not None:
            return None  # After that.
        how = self._reached["how"]
        if how == self._how:
            return self._answer(now)
        if how == SUSPENDED:
            self._scope.thaw()
            return self._begin(resumes=True)
        if how == FROZEN:
            self._scope.thaw()
            self._set(RUNS, now)
        elif self._how == SUSPENDED:
            return self._begin(resumes=False)
        elif self._freeze():
            self._set(FROZEN, now)
        else:
            return self._refuse(NOT_STILL, now)
        return self._go_on(now)

    def _freeze(self) -> bool:
        known: list[int] | None = None
        for _ in range(LOOKS_MAX):
            self._look()
            before, known = known, self._scope.pids()
            if known == before:
                return True
            if not self._scope.freeze():
                break
        self._scope.thaw()
        return False

    def _set(self, how: str, now: float) -> None:
        reached = self._reached
        if how == RUNS and self.paused:
            reached["away_s"], reached["since"] = self.away_s(now), None
        elif how != RUNS and not self.paused:
            reached["since"], self._look_at = now, now + STILL_EVERY_S
        reached["how"] = how

    def _refuse(self, why: str, now: float) -> None:
        if self._before == FROZEN and not self.paused and self._freeze():
            self._set(FROZEN, now)
        self._reached["why"], self._how = why, self._reached["how"]
        self._answer(now)

    def _answer(self, now: float) -> None:
        if not self._leaving:
            self._reached |= {"action": self._action, "took_s": now - self._began}
            self._write()

    def _write(self) -> None:
        """Tell the engine, and its successor."""
        with suppress(OSError):
            write(f"{self._folder}/{REACHED}", self._reached)
        self._tell({"paused": self._reached})

    # -- the process that moves memory ----------------------------------------------------------

    def _begin(self, *, resumes: bool) -> None:
        self._look()
        heard, said = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._helper, self._resumes = heard, resumes
        try:
            if os.fork() == 0:
                cuda_suspend.run(self._scope.pids(), said, resumes=resumes)
        finally:
            os.close(said)

    def hear(self, now: float) -> None:
        """The helper has ended, or said why it could not do it."""
        assert self._helper is not None, "it was polled"
        said = b""
        with suppress(BlockingIOError):
            said = os.read(self._helper, SAID_BYTES_MAX)
        os.close(self._helper)
        self._helper = None
        why = "" if said == cuda_suspend.DONE else said.decode(errors="replace") or "it was killed"
        if self._resumes:
            self._has_resumed(why, now)
        elif why:
            self._refuse(why, now)
        else:
            self._freeze()  # If not all of it stands still: what needs its memory waits anyway.
            self._set(SUSPENDED, now)
            self._go_on(now)

    def _has_resumed(self, why: str, now: float) -> None:
        if not why:
            self._set(RUNS, now)
            self._go_on(now)
        elif not self._leaving:
            self._freeze()
            self._refuse(why, now)

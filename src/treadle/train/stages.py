"""Stages of a step, timed.

    stages.enter("load"); ...; stages.enter("compute"); ...; stages.step_done(); stages.enter(None)
    with stages.stage("prepare"): ...          # within another one

Each moment belongs to one stage. On a GPU, work goes on after the program has ordered it: the time
of `compute` is read from the device's own events. A stage costs two looks at a clock.
"""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

WARM_UP_STEPS = 3  # not counted: libraries choose their kernels in them
EVENTS_MAX = 64  # of the device, that were not read yet


class StageTimes(NamedTuple):
    """Mean seconds of a step, and in each stage."""

    steps: int
    step_s: float
    seconds: dict[str, float]


class Stages:
    """The stages of one process.

    device: the GPU whose time `compute` takes; None: the program's own time counts.
    """

    def __init__(self, device: Any = None) -> None:  # noqa: ANN401
        self._gpu = None if device is None or device.type != "cuda" else _DeviceTime()
        self._now: str | None = None
        self._since = 0.0
        self.forget()

    def forget(self) -> None:
        """Count from here: the group is another, or only begins."""
        self._warm_up = WARM_UP_STEPS
        self._clear()

    def enter(self, name: str | None) -> None:
        """End the present stage and begin this one; None: no stage."""
        self._end()
        self._now = name
        if name is not None:
            if name == "compute" and self._gpu is not None:
                self._gpu.begin()
            self._since = time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A stage within another, which goes on after it."""
        outer = self._now
        self.enter(name)
        try:
            yield
        finally:
            self.enter(outer)

    def step_done(self) -> None:
        if self._warm_up > 0:
            self._warm_up -= 1
            if not self._warm_up:
                self._clear()
        else:
            self._counted += 1

    def times(self) -> StageTimes | None:
        """Of the steps that were counted; None: there were none."""
        if self._warm_up or not self._counted:
            return None
        if self._gpu is not None:
            self._add("compute", self._gpu.read())
        many = self._counted
        seconds = {name: spent / many for name, spent in self._seconds.items()}
        step_s = (time.perf_counter() - self._began) / many
        return StageTimes(many, step_s, seconds)

    def _end(self) -> None:
        name, gpu = self._now, self._gpu
        if name is None:
            return
        if name == "compute" and gpu is not None:
            gpu.end()
            self._add("compute", gpu.read())
        else:
            self._add(name, time.perf_counter() - self._since)

    def _add(self, name: str, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def _clear(self) -> None:
        self._seconds: dict[str, float] = {}
        self._counted = 0
        self._began = time.perf_counter()
        if self._gpu is not None:
            self._gpu.read()


class _DeviceTime:
    """How long a GPU took for what was ordered between two moments, read when it is done."""

    def __init__(self) -> None:
        import torch  # noqa: PLC0415  (the rest works without)

        self._new: Any = partial(torch.cuda.Event, enable_timing=True)
        self._begun: Any = None
        self._pairs: deque[tuple[Any, Any]] = deque()

    def begin(self) -> None:
        self._begun = self._event()

    def end(self) -> None:
        if len(self._pairs) < EVENTS_MAX:
            self._pairs.append((self._begun, self._event()))

    def read(self) -> float:
        """Seconds of what was done since the last call."""
        seconds = 0.0
        while self._pairs and self._pairs[0][1].query():
            begun, done = self._pairs.popleft()
            seconds += begun.elapsed_time(done) / 1e3
        return seconds

    def _event(self) -> Any:  # noqa: ANN401
        event = self._new()
        event.record()
        return event

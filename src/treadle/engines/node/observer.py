"""Watches what runs on this node from outside: devices, cores, memory and storage of each attempt.

Every second, or as often as takes a twentieth of the time, one look reads the devices (through the
thread that may hang, gpus.py) and the processes of all attempts (process_load.py), in a thread: the
event loop never waits for a driver or for /proc. What cannot be told apart is None: on a shared GPU
the busy share of one job is only known where NVML says it by process.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from treadle.core.launch import AttemptId
from treadle.core.machine import Measurement
from treadle.core.ports import Clock
from treadle.core.sighting import Load
from treadle.engines.node.devices import Activity, DeviceSource
from treadle.engines.node.process_load import HostUse, ProcessLoad
from treadle.engines.node.scope import Scope

LOOK_EVERY_S, LOOK_SHARE = 1.0, 0.05
GIB, MB = 2**30, 1e6


class Watched(NamedTuple):
    """An attempt that runs."""

    id: AttemptId
    scope: Scope
    devices: tuple[int, ...]
    cores: float  # that lie beside its devices
    mps: bool = False  # it runs under CUDA MPS


class _Last(NamedTuple):
    """What was read of an attempt in the look before."""

    at: float
    host: HostUse | None
    energy_j: dict[int, float]  # the counters of its devices


class _Seen:
    """One attempt between looks."""

    def __init__(self, watched: Watched) -> None:
        self.load = ProcessLoad(watched.scope)
        self.last: _Last | None = None
        self.energy_j: float | None = None  # since it is watched
        self.newest = Measurement(watched.id)


class Observer:
    """Measures the attempts of one node."""

    def __init__(
        self, source: DeviceSource, clock: Clock, attempts: Callable[[], Sequence[Watched]]
    ) -> None:
        self._source = source
        self._clock = clock
        self._attempts = attempts
        self._seen: dict[AttemptId, _Seen] = {}
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()

    def begin(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="observer")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        async with self._looking:
            for seen in self._seen.values():
                seen.load.close()
            self._seen.clear()

    def measurements(self) -> list[Measurement]:
        """The newest of each attempt that runs now."""
        watched = self._attempts()
        shared = _sharers(watched)
        found = []
        for each in watched:
            seen = self._seen.get(each.id)
            newest = Measurement(each.id, at=self._clock.now()) if seen is None else seen.newest
            found.append(newest._replace(alone=_is_alone(each, shared)))
        return found

    async def look(self) -> None:
        """Measure now."""
        watched, now = list(self._attempts()), self._clock.now()
        if not watched and not self._seen:
            return
        async with self._looking:
            look = asyncio.ensure_future(asyncio.to_thread(self.look_now, watched, now))
            try:
                await asyncio.shield(look)
            except asyncio.CancelledError:
                # The thread goes on, and reads files that `close` would close under it.
                await asyncio.gather(look, return_exceptions=True)
                raise

    async def _run(self) -> None:
        while True:
            began = self._clock.now()
            try:
                await self.look()
            except Exception:  # a driver may raise anything, and the next look may succeed
                logging.getLogger(__name__).exception("what runs could not be measured")
            now = self._clock.now()
            await self._clock.sleep_until(now + max(LOOK_EVERY_S, (now - began) / LOOK_SHARE))

    # -- in a thread ----------------------------------------------------------------------------

    def look_now(self, watched: Sequence[Watched], now: float) -> None:
        """One look at these attempts and their devices; attempts that are not named are over."""
        running = {each.id for each in watched}
        for gone in [identity for identity in self._seen if identity not in running]:
            self._seen.pop(gone).load.close()
        activity = {each.number: each for each in self._source.activity()}
        shared = _sharers(watched)
        for each in watched:
            seen = self._seen.get(each.id)
            if seen is None:
                seen = self._seen[each.id] = _Seen(each)
            seen.newest = self._measured(each, seen, activity, shared, now)
        known = {pid for seen in self._seen.values() for pid in seen.load.pids}
        for each in watched:
            on_devices = (activity[number] for number in each.devices if number in activity)
            if any(pid not in known for device in on_devices for pid in device.memory_gib):
                self._seen[each.id].load.list_again()

    def _measured(
        self,
        watched: Watched,
        seen: _Seen,
        activity: Mapping[int, Activity],
        shared: Counter[int],
        now: float,
    ) -> Measurement:
        alone = _is_alone(watched, shared)
        host = seen.load.look(now)
        devices = [activity[number] for number in watched.devices if number in activity]
        counters = {each.number: each.energy_j for each in devices if each.energy_j is not None}
        last, seen.last = seen.last, _Last(now, host, counters)
        passed_s = 0.0 if last is None else now - last.at
        load = _of_host(host, last, passed_s)
        energy_j: float | None = None
        if last is not None and passed_s > 0:
            spent = [
                (count - last.energy_j[number]) / shared[number]
                for number, count in counters.items()
                if count >= last.energy_j.get(number, float("inf"))
            ]
            if spent:
                energy_j = sum(spent)
                seen.energy_j = (seen.energy_j or 0.0) + energy_j
        if devices:
            load = _with_devices(load, devices, set(seen.load.pids), alone=alone)
            if energy_j is not None and passed_s > 0:
                load = load._replace(power_w=energy_j / passed_s)
            shares = [each.busy / shared[each.number] for each in devices if each.busy is not None]
            busy = sum(shares) / len(shares) if shares else None
        else:
            busy = _slot_busy(load, watched)
            load = load._replace(busy=busy)
        return Measurement(watched.id, busy, load, now, seen.energy_j, alone, watched.mps)


def _of_host(host: HostUse | None, last: _Last | None, passed_s: float) -> Load:
    if host is None:
        return Load()
    load = Load(memory_gib=host.memory_bytes / GIB)
    before = None if last is None else last.host
    if before is None or passed_s <= 0:
        return load
    return load._replace(
        cores=max(0.0, host.cpu_s - before.cpu_s) / passed_s,
        read_mb_s=_rate(host.read_bytes, before.read_bytes, passed_s),
        written_mb_s=_rate(host.written_bytes, before.written_bytes, passed_s),
    )


def _rate(now: int | None, before: int | None, passed_s: float) -> float | None:
    if now is None or before is None:
        return None
    return max(0, now - before) / MB / passed_s


def _with_devices(load: Load, devices: Sequence[Activity], pids: set[int], *, alone: bool) -> Load:
    """Add what was seen of its devices; of a shared one only what NVML says by process."""
    if alone:
        load = load._replace(
            busy=_mean([each.busy for each in devices]),
            memory_busy=_mean([each.memory_busy for each in devices]),
            active=_mean([each.active for each in devices]),
            bandwidth=_mean([each.bandwidth for each in devices]),
        )
    else:
        load = load._replace(busy=_mean([_own(each.process_busy, pids) for each in devices]))
    memory = [_own(each.memory_gib, pids) for each in devices]
    if alone:  # In a container NVML may name pids that we do not know.
        pairs = zip(memory, devices, strict=True)
        memory = [each.memory_used_gib if own is None else own for own, each in pairs]
    known = [each for each in memory if each is not None]
    return load._replace(device_memory_gib=max(known) if known else None)


def _own(by_pid: Mapping[int, float], pids: set[int]) -> float | None:
    own = [value for pid, value in by_pid.items() if pid in pids]
    return sum(own) if own else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _slot_busy(load: Load, watched: Watched) -> float | None:
    """CPU slots are busy as far as the cores beside them are used."""
    if load.cores is None or watched.cores <= 0:
        return None
    return min(1.0, load.cores / watched.cores)


def _sharers(watched: Sequence[Watched]) -> Counter[int]:
    return Counter(number for each in watched for number in each.devices)


def _is_alone(watched: Watched, shared: Counter[int]) -> bool:
    return all(shared[number] <= 1 for number in watched.devices)

"""The local engine keeps the contract that all engines are held to, with real processes."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.engines.bench import Book
from treadle.engines.launch import Launch

from treadle.control.loop.clock import MonotonicClock
from treadle.core.actions import Action, Stop
from treadle.core.cluster import Node
from treadle.core.events import Event
from treadle.core.ports import Abilities
from treadle.engines.local.engine import LocalEngine
from treadle.engines.node import processes
from treadle.engines.node.devices import CpuSlots
from treadle.engines.node.environment import TAG
from treadle.testing.engine_contract import Bench, EngineContract


class TestLocalEngine(EngineContract):
    """`short` takes a moment here instead of ten seconds: a contract is no test of patience."""

    @pytest.fixture(autouse=True)
    def _in(self, tmp_path: Path) -> Iterator[None]:
        self.root = tmp_path
        self.machines: list[_TwoMachines] = []
        yield
        for machines in self.machines:
            machines.clear_away()

    async def bench(self) -> Bench:
        inbox: asyncio.Queue[Event | None] = asyncio.Queue()
        book = Book()
        sleep = Launch(job="", attempt=0, command=(), workdir="/", ranks=1, grace_s=5.0)
        book.jobs["short"] = replace(sleep, job="short", command=("sleep", "0.1"))
        book.jobs["long"] = replace(sleep, job="long", command=("sleep", "86400"))
        machines = _TwoMachines(self.root, book, inbox)
        self.machines.append(machines)
        return Bench(machines, inbox)


class _TwoMachines:
    """Two local engines side by side as the nodes n0 and n1."""

    abilities = Abilities(share=True)

    def __init__(self, root: Path, book: Book, inbox: "asyncio.Queue[Event | None]") -> None:
        self._engines = {
            name: LocalEngine(
                node=Node(name, 2, cores=2),
                devices=CpuSlots(2),
                book=book,
                inbox=inbox,
                root=root / name,
                clock=MonotonicClock(),
            )
            for name in ("n0", "n1")
        }
        self._where: dict[str, LocalEngine] = {}

    async def carry_out(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if not isinstance(action, Stop):
                self._where[action.job] = self._engines[action.allocation.devices[0].node]
            await self._where[action.job].carry_out([action])

    def clear_away(self) -> None:
        for engine in self._engines.values():
            engine.nursery.close()
            processes.kill_tagged(TAG, f"{engine.folders.instance}*")

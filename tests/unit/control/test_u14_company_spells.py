"""`describe` says with whom a job shared and for how long: both sides alike, over restarts too."""

import asyncio
from pathlib import Path

from tests.unit.control.memory import ME, Bench, play_on
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device, Node
from treadle.core.ports import Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.engines.memory_world import MemoryWorld
from treadle.wire.jobs import CompanyView, State

SLOT = Device("here", 0)


class Together(Policy):
    """Up to three jobs share the one slot."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        taken = set(snapshot.tenants.get(SLOT, {}))
        changes: dict[str, Allocation | None] = {}
        for job in snapshot.waiting():
            turn = min({0, 1, 2} - taken, default=None)
            if turn is not None:
                taken.add(turn)
                changes[job.id] = Allocation((SLOT,), turn=turn)
        return Schedule(changes)


def share(here: Bench) -> None:
    here.live.context.scheduler.set_policy(Together(), here.live.context.clock.now())


async def starts(here: Bench) -> str:
    job = await here.submit("forever")
    await here.reached(job, State.RUNNING)
    await here.settle()
    return job


async def spells(here: Bench, job: str) -> list[CompanyView]:
    return [spell for run in (await here.live.job(job)).attempts for spell in run.company]


async def cancelled(here: Bench, job: str) -> None:
    await here.live.cancel(ME, job)
    await here.reached(job, State.CANCELLED)
    await here.settle()


def world() -> MemoryWorld:
    return MemoryWorld.of(Node("here", 1, "none"))


def test_u14_both_sides_of_a_spell_say_the_same(tmp_path: Path) -> None:
    """1. b joins a, then c joins both. 2. b ends. 3. a ends. None of them ever printed a step."""

    async def story(here: Bench) -> None:
        share(here)
        a, b, c = await starts(here), await starts(here), await starts(here)
        assert [spell.jobs for spell in await spells(here, c)] == [(a, b)]
        while (await spells(here, c))[0].seconds < 0.3:
            await asyncio.sleep(0.01)
        await cancelled(here, b)
        await cancelled(here, a)
        of_a, of_b, of_c = [{s.jobs: s.seconds for s in await spells(here, x)} for x in (a, b, c)]
        assert list(of_a) == [(b,), (b, c), (c,)]
        assert list(of_b) == [(a,), (a, c)]
        assert list(of_c) == [(a, b), (a,)]
        assert of_a[(b,)] == of_b[(a,)]
        assert of_a[(b, c)] == of_b[(a, c)] == of_c[(a, b)] >= 0.2
        assert of_a[(c,)] == of_c[(a,)]
        assert all(spell.since_at is None for spell in await spells(here, c)), "it is alone now"

    play_on(world(), story, tmp_path)


def test_u14_spells_go_on_over_a_restart(tmp_path: Path) -> None:
    there, begun = world(), list[float]()

    async def before(here: Bench) -> None:
        share(here)
        await starts(here)
        await starts(here)
        begun.extend(spell.since_at or 0.0 for spell in await spells(here, "1"))

    async def after(here: Bench) -> None:
        now = [(await spells(here, job))[-1] for job in ("1", "2")]
        assert [spell.jobs for spell in now] == [("2",), ("1",)]
        assert [spell.since_at for spell in now] == [begun[0], begun[0]]
        await cancelled(here, "2")
        (last,), (other,) = await spells(here, "2"), await spells(here, "1")
        assert last.since_at is other.since_at is None
        assert last.seconds == other.seconds

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)

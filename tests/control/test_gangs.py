"""A gang among many small ones starts after a bounded number, and `why` says how."""

import asyncio
from pathlib import Path

from tests.control.asking import engine_of, runs, telling_in_memory
from tests.control.living import ME, bash, ended, export, view_of
from treadle.control.api import LiveService
from treadle.core.actions import Start
from treadle.journal.journal import read
from treadle.wire.jobs import State

SHORT = "sleep 0.1"
MOST = 9


@telling_in_memory(policy="afs")
async def test_u12_a_gang_among_thirty_small_jobs_starts_after_a_bounded_number(
    live: LiveService, tmp_path: Path
) -> None:
    """1. Two jobs run on four slots until they are ended; a gang of four cannot start.
    2. Of thirty small jobs, which are said to be long, eight overtake it, two for each slot, or
       nine if the last two start in one decision; then devices are kept for it.
    3. `why` says so of the gang and of a small job. The two end, the gang runs, then the others.
    """
    first = [await runs(live) for _ in range(2)]
    gang = (await live.submit(ME, bash(SHORT, devices="4"))).id
    small = [
        (await live.submit(ME, bash(f"{SHORT} # {'x' * n}", estimate_s=3600.0))).id
        for n in range(30)
    ]
    await kept(live, gang)
    pending = [job for job in small if (await view_of(live, job)).state is State.PENDING]
    assert len(pending) >= 30 - MOST
    waits = await live.why(pending[-1])
    assert (waits.code, waits.numbers["for_job"]) == ("reserved", gang)
    for job in first:
        engine_of(live).finish(job)
    await ended(live, *first, gang, *small)
    journal = read(await export(live, tmp_path / "journal"))
    order = [a.job for step in journal.steps for a in step.actions if isinstance(a, Start)]
    assert order.index(gang) <= 2 + MOST


async def kept(live: LiveService, gang: str) -> None:
    """Until two of the four devices that are reserved for the gang are free."""
    while (why := await live.why(gang)).code != "reservation" or why.numbers["free"] != 2:
        await asyncio.sleep(0.02)

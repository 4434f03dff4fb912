"""A year of use: how large the store gets, and how long a daemon takes to start on it.

    python benchmarks/retention.py [--days 365] [--jobs 200] [--progress 30] [--folder DIR]

One real job runs and reports its progress; its rows and journal lines are then written again for
every job of the year, with other ids and moments. The store is measured as it is, and after the
daemon's own retention has closed and thinned the journal. Wall-clock figures depend on the machine;
the last line says whether a start stays below its budget.
"""

import argparse
import asyncio
import sqlite3
import tempfile
from collections.abc import Awaitable, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter, time

from treadle.control.api import LiveService, LiveSettings, Wanted
from treadle.core.job_report import Report
from treadle.engines.clusters.here import here
from treadle.engines.node.devices import CpuSlots
from treadle.store.rows import AttemptRow, Batch, JobRow, JournalRow
from treadle.store.store import Store
from treadle.wire.jobs import JobRequest, State
from treadle.wire.machine import EventPage, Role, Who

ME = Who(user="me", role=Role.ADMIN, uid=0)
DAY_S = 86_400.0
BATCH_JOBS = 200
START_S_MAX = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--jobs", type=int, default=200, help="of a day")
    parser.add_argument("--progress", type=int, default=30, help="reports of one job")
    parser.add_argument("--folder", type=Path, help="where the store is made, and left")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        return asyncio.run(measure(folder, options.days, options.jobs, options.progress))


async def measure(folder: Path, days: int, jobs: int, progress: int) -> int:
    live = await started(folder)
    example = await one_job(live, folder, progress)
    await live.close()
    count = days * jobs
    show("jobs", f"{count:,}")
    show("lines of a job", f"{len(example[0]):,}")
    grow(folder, example, count, days * DAY_S)
    before = await started_in(folder, "as it grew")
    sizes(folder, "as it grew")
    live = await started(folder)
    began = perf_counter()
    pruned = await live._retention.sweep()
    show("one sweep over it all, s", f"{perf_counter() - began:.1f}")
    show("lines thinned", f"{pruned.journal_lines:,}")
    await reads(live, count)
    await live.close()
    compact(folder)
    after = await started_in(folder, "compacted")
    sizes(folder, "compacted")
    ok = max(before, after) <= START_S_MAX
    print(f"start within {START_S_MAX:g} s: {'yes' if ok else 'NO'}")
    return 0 if ok else 1


async def started(folder: Path) -> LiveService:
    store = Store.open(f"sqlite:///{folder / 'treadle.db'}")
    engine = partial(here, devices=CpuSlots(2), node_name="here")
    settings = LiveSettings(root=folder / "state", engine=engine, wanted=Wanted("backfill"))
    live = LiveService(store, settings)
    await live.begin()
    return live


async def started_in(folder: Path, what: str) -> float:
    began = perf_counter()
    live = await started(folder)
    taken_s = perf_counter() - began
    await live.close()
    show(f"start, {what}, s", f"{taken_s:.2f}")
    return taken_s


Example = tuple[Sequence[JournalRow], JobRow, Sequence[AttemptRow]]


async def one_job(live: LiveService, folder: Path, progress: int) -> Example:
    """A job that runs, reports and succeeds: its lines and rows."""
    command = ("/bin/sh", "-c", "while [ ! -e end ]; do sleep 0.05; done")
    workdir = str(folder)
    made = await live.submit(ME, JobRequest(command=command, name="train", workdir=workdir))
    while (await live.job(made.id)).job.state is not State.RUNNING:
        await asyncio.sleep(0.01)
    for step in range(progress):
        await live.report(ME, made.id, Report(step=step, total=progress, loss=1 / (1 + step)))
    while not [row for row in live.context.store.lines(0) if row.kind == "JobProgressed"]:
        await asyncio.sleep(0.05)
    Path(workdir, "end").touch()
    while not (await live.job(made.id)).job.state.ended:
        await asyncio.sleep(0.01)
    store = live.context.store
    row = store.job(made.id)
    assert row is not None
    return busy(store.lines(0, limit=10_000), progress), row, store.attempts(made.id)


def busy(rows: Sequence[JournalRow], progress: int) -> list[JournalRow]:
    """The lines of a job that ran for long: more progress, each time with an idle decision."""
    lines: list[JournalRow] = []
    decided = next(row for row in rows if row.kind == "Decided")
    for row in rows:
        if row.kind == "JobProgressed":
            for step in range(progress):
                moment = row.at + step / progress
                lines.append(row._replace(at=moment))
                lines.append(decided._replace(at=moment + 0.5 / progress))
            progress = 1
        elif row.kind not in {"Noted", "PolicySet", "NodeJoined"}:
            lines.append(row)
    return lines


def grow(folder: Path, example: Example, count: int, span_s: float) -> None:
    """Write the example again for every job."""
    lines, row, attempts = example
    began, first_at = perf_counter(), time() - span_s
    clock_s = lines[-1].at
    with Store.open(f"sqlite:///{folder / 'treadle.db'}") as store:
        numbers = iter(range(row.number + 1, row.number + 1 + count))
        while some := list(islice(numbers, BATCH_JOBS)):
            batch = Batch()
            for number in some:
                at = first_at + span_s * (number - row.number) / count
                batch.journal += [renamed(line, row.id, number, clock_s, at) for line in lines]
                record = row.record.replace(b'"%s"' % row.id.encode(), b'"%d"' % number)
                batch.jobs.append(
                    row._replace(
                        id=str(number),
                        number=number,
                        record=record,
                        submitted_at=at,
                        ended_at=at + 3600.0,
                    )
                )
                batch.attempts += [
                    each._replace(job=str(number), started_at=at, ended_at=at + 3600.0)
                    for each in attempts
                ]
            store.write(batch)
    show("written in, s", f"{perf_counter() - began:.0f}")


def renamed(line: JournalRow, name: str, number: int, clock_s: float, at: float) -> JournalRow:
    body = line.body.replace(b'"%s"' % name.encode(), b'"%d"' % number)
    job = str(number) if line.job == name else line.job
    return line._replace(job=job, body=body, at=clock_s, wall_at=at + 600 * line.at, id=0)


async def reads(live: LiveService, count: int) -> None:
    await timed("first page of events, ms", live.events(after=0, limit=1000))
    await timed("newest events, ms", live.events_last(limit=100))
    await timed("events of an old job, ms", live.events(job=str(count // 3), limit=100))


async def timed(what: str, work: Awaitable[EventPage]) -> None:
    began = perf_counter()
    await work
    show(what, f"{1000 * (perf_counter() - began):.1f}")


def sizes(folder: Path, what: str) -> None:
    with closing(sqlite3.connect(folder / "treadle.db")) as connection:
        page, pages, free = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_size", "page_count", "freelist_count")
        )
    show(f"in use, {what}, MB", f"{page * (pages - free) / 1e6:,.0f}")
    show(f"file, {what}, MB", f"{page * pages / 1e6:,.0f}")


def compact(folder: Path) -> None:
    """Give freed pages back, as an admin may do while no daemon runs."""
    with closing(sqlite3.connect(folder / "treadle.db")) as connection:
        connection.execute("VACUUM")


def show(what: str, value: str) -> None:
    print(f"{what:36} {value:>12}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

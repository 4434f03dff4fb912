"""U19: what ended jobs leave is pruned by age and size, and nothing that anybody still needs."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.control.asking import looked_at, telling, waits
from tests.control.living import ME, bash, ended, export, local, until
from treadle.control.api import LiveService
from treadle.control.api import retention as retention_module
from treadle.control.jobs import Rebuilt, first_cluster, record_of
from treadle.control.loop import PolicyInCharge
from treadle.core.job_report import Report
from treadle.core.scheduler import Scheduler
from treadle.failures.failure_history import Patience
from treadle.failures.retry import Classified, live_verdicts
from treadle.failures.rules import shipped
from treadle.policies.live.naming import PLACEMENT
from treadle.store.rows import JobFilter
from treadle.study.record import replayed
from treadle.wire.job_orders import JobsOrder, Verb
from treadle.wire.jobs import Code, State
from treadle.wire.machine import Role, Who
from treadle.wire.problems import InvalidRequestError, NotFoundError
from treadle.wire.retention import PruneRequest

YOU = Who(user="you", role=Role.USER, uid=os.geteuid() + 1)
ALL = PruneRequest(logs_over=0)
TALK = "head -c 20000 /dev/zero | tr '\\0' x"


async def done(live: LiveService, body: str = TALK, who: Who = ME, **fields: object) -> str:
    made = await live.submit(who, bash(body, **fields))
    await ended(live, *made.jobs)
    return made.id


def folders(live: LiveService, job: str) -> tuple[bool, bool]:
    """Whether it has attempt folders, and a checkpoint folder."""
    machine = local(live)
    return bool(machine.folders.attempts(job)), bool(list(machine.checkpoints.of(job)))


@telling()
async def test_u19_an_empty_checkpoint_folder_goes_when_the_job_ends(live: LiveService) -> None:
    empty = await done(live)
    full = await done(live, 'touch "$TREADLE_CHECKPOINT_DIR/.hidden"')
    link = await done(live, 'ln -s / "$TREADLE_CHECKPOINT_DIR/root"')
    assert await live._retention.look() == 1
    assert folders(live, empty) == (True, False)
    assert folders(live, full) == (True, True)
    assert folders(live, link) == (True, True)


@telling()
async def test_u19_logs_are_pruned_oldest_first_and_said_to_be(live: LiveService) -> None:
    first = await done(live)
    second = await done(live, f'{TALK}; touch "$TREADLE_CHECKPOINT_DIR/model.pt"')
    total = (await live.prune(ME, PruneRequest(dry_run=True))).kept_bytes
    assert total > 40_000
    wanted = PruneRequest(logs_over=total - 1, dry_run=True)
    planned = await live.prune(ME, wanted)
    assert [job.id for job in planned.jobs] == [first]
    assert folders(live, first)[0], "a dry run removes nothing"
    removed = await live.prune(ME, PruneRequest(logs_over=total - 1))
    assert (removed.logs, removed.bytes, removed.kept_bytes) == (
        1,
        planned.bytes,
        planned.kept_bytes,
    )
    assert folders(live, first) == (False, False)
    with pytest.raises(NotFoundError, match=rf"the log of job {first} was pruned on 20\d\d-"):
        await live.log(first)
    assert (await live.job(first)).logs_pruned_at is not None
    assert (await live.job(second)).logs_pruned_at is None
    assert (await live.prune(ME, ALL)).logs == 1
    assert folders(live, second) == (False, True), "checkpoints stay"
    assert (await live.prune(ME, ALL)).logs == 0
    pruned = [
        e.text for e in (await live.events_last(limit=20)).events if e.text.startswith("pruned")
    ]
    assert len(pruned) == 2


@telling()
async def test_u19_jobs_that_run_or_are_waited_for_are_left_alone(live: LiveService) -> None:
    over = await done(live)
    runs = (await live.submit(ME, bash(f"{TALK}; exec sleep 60", grace_s=0.1))).id
    await until(live, State.RUNNING, jobs=(runs,))
    await waits(live, "true", after=(over, runs))
    assert (await live.prune(ME, ALL)).logs == 0
    gone = PruneRequest(older_than_s=1e-6, records=True)
    assert (await live.prune(ME, gone)).records == 0
    assert folders(live, over)[0]
    assert folders(live, runs) == (True, True)


@telling()
async def test_u19_a_user_prunes_only_their_own(live: LiveService) -> None:
    mine, theirs = await done(live), await done(live, who=YOU)
    assert [job.id for job in (await live.prune(YOU, ALL)).jobs] == [theirs]
    assert folders(live, mine)[0]
    third = await done(live, who=YOU)
    my_own = await live.prune(ME, PruneRequest(logs_over=0, mine=True))
    assert [job.id for job in my_own.jobs] == [mine]
    assert [job.id for job in (await live.prune(ME, ALL)).jobs] == [third]


@telling()
async def test_u19_records_go_only_when_asked_and_numbers_are_not_given_again(
    live: LiveService, tmp_path: Path
) -> None:
    array = await live.submit(ME, bash(TALK, array="0-1"))
    await ended(live, *array.jobs)
    other, newest = await done(live), await done(live)
    with pytest.raises(InvalidRequestError, match="kept for ever"):
        await live.prune(ME, PruneRequest(records=True))
    wanted = PruneRequest(older_than_s=1e-6, records=True, dry_run=True)
    assert (await live.prune(ME, wanted)).records == 4
    answer = await live.prune(ME, PruneRequest(older_than_s=1e-6, records=True))
    assert (answer.records, answer.logs) == (4, 4)
    for job in (*array.jobs, other, newest):
        with pytest.raises(NotFoundError):
            await live.job(job)
    page = await live.events(limit=1000)
    assert not [event for event in page.events if event.job in {array.id, other}]
    assert (await live.events(after=1)).pruned_before > 1
    assert live.context.store.next_number() == int(newest) + 1
    assert (await live.submit(ME, bash("true"))).id == str(int(newest) + 1)
    await looked_at(live)
    record = replayed(await export(live, tmp_path / "left.journal"))
    assert list(record.recorder.histories) == [str(int(newest) + 1)]


@telling()
async def test_u19_many_ended_jobs_are_deleted_in_one_request(live: LiveService) -> None:
    over, theirs = await done(live, name="old"), await done(live, who=YOU)
    runs = (await live.submit(YOU, bash("exec sleep 60", grace_s=0.1))).id
    order = JobsOrder(verb=Verb.DELETE, ids=(over, theirs, runs, "nope"))
    answer = await live.order(YOU, order)
    codes = {each.id: each.code for each in answer.outcomes}
    assert codes == {over: "not-allowed", theirs: "", runs: "conflict", "nope": "not-found"}
    with pytest.raises(NotFoundError):
        await live.job(theirs)
    assert folders(live, theirs) == (False, False)
    assert (await live.job(over)).job.id == over
    array = await live.submit(ME, bash("true", array="0-1"))
    await ended(live, *array.jobs)
    answer = await live.order(ME, JobsOrder(verb=Verb.DELETE, ids=(array.id, over)))
    assert [len(each.jobs) for each in answer.outcomes] == [2, 1]


@telling()
async def test_u19_a_compacted_journal_gives_the_same_records(
    live: LiveService, monkeypatch
) -> None:
    """1. Jobs report progress, fail, are cancelled. 2. The journal is closed and thinned. 3. It is
    shorter, and still rebuilds every record and attempt; a cursor into it goes on."""
    monkeypatch.setattr(retention_module, "SEGMENT_LINES", 7)
    monkeypatch.setattr(retention_module, "LIVE_LINES", 3)
    slow = (await live.submit(ME, bash("exec sleep 60", grace_s=0.1))).id
    await until(live, State.RUNNING, jobs=(slow,))
    for step in range(30):
        await live.report(ME, slow, Report(step=step, total=100, checkpoint=step))
        await asyncio.sleep(0)
    await live.cancel(ME, slow)
    await ended(live, slow)
    await done(live, "exit 3", retries=0)
    await done(live, array="0-2")
    await looked_at(live)
    store = live.context.store
    before = store.lines(0, limit=10_000)
    live._retention.options = retention_module.keeping_of({}, logs="0.001s", records="")
    await asyncio.sleep(0.01)
    pruned = await live._retention.sweep()
    after = store.lines(0, limit=10_000)
    assert pruned.journal_lines == len(before) - len([r for r in after if r in before]) > 2
    assert store.segments()
    _same_records(live)
    page = await live.events(after=1, limit=5)
    assert page.pruned_before > 1
    assert page.events[0].id > 1
    newest = await live.events_last(limit=1)
    assert newest.pruned_before == 0


def _same_records(live: LiveService) -> None:
    context, store = live.context, live.context.store
    policy = PolicyInCharge().make("backfill", PLACEMENT, context.belief)
    retry = Classified(live_verdicts(shipped()), Patience(wait_s=0.05, wait_max_s=0.1))
    empty = Scheduler(policy, first_cluster(store, context.cluster), retry=retry)
    again = Rebuilt(empty).apply(store.lines(0, limit=10_000))
    stored = {row.id: record_of(row) for row in store.jobs(JobFilter(), limit=10_000)}
    assert {**again.ended, **again.jobs.records} == stored
    for name in stored:
        for row in store.attempts(name):
            assert again.attempts[row.job, row.number] == row


@telling()
async def test_u19_a_job_deleted_right_after_its_end_leaves_no_row(live: LiveService) -> None:
    """1. A job ends. 2. It is deleted before retention has looked at it. 3. Retention looks."""
    job, other = await done(live), await done(live)
    await live.order(ME, JobsOrder(verb=Verb.DELETE, ids=(job,)))
    await live._retention.look()
    assert live.context.store.output(job) is None
    assert live.context.store.output(other) is not None


@telling()
async def test_u19_the_code_of_deleted_jobs_goes_with_the_last_that_names_it(
    live: LiveService, tmp_path: Path
) -> None:
    """1. Two jobs of the same changed code, and one of other code. 2. One is deleted. 3. The other
    is pruned."""
    same, other = Code(commit="c", diff="+same"), Code(commit="c", diff="+other")
    first, second = [await done(live, "true", code=same) for _ in range(2)]
    await live.submit(ME, bash("true", code=other, held=True))
    folder = tmp_path / "state" / "code"
    assert len(list(folder.iterdir())) == 2
    await live.order(ME, JobsOrder(verb=Verb.DELETE, ids=(first,)))
    assert (await live.job(second)).code == same
    await live.prune(ME, PruneRequest(older_than_s=1e-6, records=True))
    (left,) = folder.iterdir()
    assert left.read_text() == "+other"

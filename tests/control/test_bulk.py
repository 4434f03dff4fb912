"""U19: one order for many jobs is one request and one commit, with an answer for each id."""

import os
import time

import pytest

from tests.control.asking import looked_at, runs, telling_in_memory
from tests.control.living import ME, bash, ended, until
from treadle.control.api import LiveService
from treadle.wire.job_orders import IDS_MAX, JobSelection, JobsOrder, Verb
from treadle.wire.jobs import JobChange, State
from treadle.wire.machine import Role, Who
from treadle.wire.problems import InvalidRequestError

YOU = Who(user="you", role=Role.USER, uid=os.geteuid() + 1)
CPU_S_MAX = 4.0  # about 1 s; it was 54 ms for each of 1,999 requests


@telling_in_memory()
async def test_u19_1999_jobs_are_cancelled_in_two_commits(live: LiveService) -> None:
    first = await live.submit(ME, bash("true", array="0-999", held=True))
    second = await live.submit(ME, bash("true", array="0-998", held=True))
    ids = (*first.jobs, *second.jobs)
    await looked_at(live)
    commits: list[str] = []
    live.context.store._writer._hook = commits.append
    began = time.process_time()
    for start in range(0, len(ids), IDS_MAX):
        answer = await live.order(ME, JobsOrder(verb=Verb.CANCEL, ids=ids[start : start + IDS_MAX]))
        assert answer.refused == 0
    spent = time.process_time() - began
    assert commits.count("commit") <= 6, "the facts of a request are one commit"
    assert spent < CPU_S_MAX
    assert {view.state for view in await ended(live, *ids[::100])} == {State.CANCELLED}


@telling_in_memory()
async def test_u19_each_id_has_its_own_answer(live: LiveService) -> None:
    mine = (await live.submit(ME, bash("true", held=True, name="mine"))).id
    theirs = (await live.submit(YOU, bash("true", held=True))).id
    over = (await live.submit(ME, bash("true"))).id
    await ended(live, over)
    array = (await live.submit(YOU, bash("true", array="0-2", held=True))).id
    ids = (mine, theirs, over, array, "nope")
    answer = await live.order(YOU, JobsOrder(verb=Verb.CANCEL, ids=ids))
    found = {each.id: (each.code, len(each.jobs)) for each in answer.outcomes}
    assert found == {
        mine: ("not-allowed", 0),
        theirs: ("", 1),
        over: ("not-allowed", 0),
        array: ("", 3),
        "nope": ("not-found", 0),
    }
    assert (answer.done, answer.refused) == (4, 3)
    answer = await live.order(ME, JobsOrder(verb=Verb.HOLD, ids=(over, "mine", mine)))
    assert [each.error for each in answer.outcomes] == [
        f"job {over} has ended already (succeeded)",
        "",
    ], "the job that was named twice is held once"


@telling_in_memory()
async def test_u19_a_selection_means_the_callers_jobs_and_a_dry_run_changes_nothing(
    live: LiveService,
) -> None:
    for who, name in ((ME, "a"), (ME, "b"), (YOU, "a")):
        await live.submit(who, bash("true", held=True, name=name))
    mine = JobsOrder(verb=Verb.RELEASE, select=JobSelection(mine=True, name="a"), dry_run=True)
    answer = await live.order(ME, mine)
    assert [view.user for each in answer.outcomes for view in each.jobs] == ["me"]
    assert {view.state for view in (await live.jobs()).jobs} == {State.HELD}
    everything = JobsOrder(verb=Verb.CANCEL, select=JobSelection())
    assert (await live.order(YOU, everything)).done == 1, "a user has no power over others"
    assert (await live.order(ME, everything)).done == 2


@telling_in_memory()
async def test_u19_many_jobs_are_changed_and_held(live: LiveService) -> None:
    job = await runs(live)
    array = await live.submit(ME, bash("true", array="0-2", held=True))
    change = JobsOrder(verb=Verb.CHANGE, ids=(array.id,), change=JobChange(priority=7))
    answer = await live.order(ME, change)
    assert [view.priority for view in answer.outcomes[0].jobs] == [7, 7, 7]
    answer = await live.order(ME, JobsOrder(verb=Verb.HOLD, ids=(job, array.id)))
    assert [each.code for each in answer.outcomes] == ["", ""]
    await until(live, State.PAUSED, jobs=(job,))


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        (JobsOrder(verb=Verb.CANCEL, ids=("1",) * 1001), "the limit of one request is 1000"),
        (JobsOrder(verb=Verb.CANCEL), "either ids or select"),
        (JobsOrder(verb=Verb.CHANGE, ids=("1",)), "change says what"),
    ],
)
@telling_in_memory()
async def test_u19_an_order_that_says_too_much_or_too_little_is_refused(
    live: LiveService, order: JobsOrder, sentence: str
) -> None:
    with pytest.raises(InvalidRequestError, match=sentence):
        await live.order(ME, order)

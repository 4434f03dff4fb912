"""What was learned reaches jobs that wait, and a long queue of one kind makes no step long."""

from pathlib import Path

from tests.unit.control.memory import ME, Bench, play
from treadle.control.jobs.respec import A_LOOK, AT_ONCE
from treadle.control.learning import keys_of
from treadle.core.events import JobUpdated
from treadle.models.learning.outcome import Outcome
from treadle.wire.jobs import JobRequest, State

MEMBERS = 500


def test_learning_from_one_job_changes_a_bounded_number_of_others_at_a_time(
    tmp_path: Path,
) -> None:
    """1. A job runs and 500 of its kind wait. 2. One of the kind is learned. 3. A few are told in
    that step, more in each look, none twice, and the one that runs is among them."""

    async def story(here: Bench) -> None:
        context = here.live.context
        request = JobRequest(command=("forever",), array=f"0-{MEMBERS - 1}")
        jobs = (await here.live.submit(ME, request)).jobs
        await here.reached(jobs[0], State.RUNNING)
        await here.settle()
        respec, now = context.commit.respec, context.clock.now()
        assert respec.at_once(now) == []
        context.learner.learn(keys_of("me", "", ("forever",)), Outcome(1, 50.0, whole=True))
        first = respec.at_once(now)
        assert respec.at_once(now) == [], "the rest waits for a look"
        told = [fact.spec.id for fact in first if isinstance(fact, JobUpdated)]
        assert len(told) == AT_ONCE
        assert jobs[0] in told
        while len(told) < MEMBERS:
            facts = respec.in_a_look((), now)
            more = [fact.spec.id for fact in facts if isinstance(fact, JobUpdated)]
            assert 0 < len(more) <= A_LOOK
            told += more
        assert sorted(told) == sorted(jobs)
        assert respec.in_a_look((), now) == []

    play(story, tmp_path, devices=1)


def test_a_running_job_that_outlives_its_estimate_is_expected_to_go_on(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        context = here.live.context
        job = await here.submit("forever", estimate_s=0.01)
        await here.reached(job, State.RUNNING)
        await here.settle()
        before = context.scheduler.jobs[job]
        now = context.clock.now() + 100.0
        assert before.remaining_at(now) == 0.0
        found = context.commit.respec.in_a_look([before], now)
        (spec,) = [fact.spec for fact in found if isinstance(fact, JobUpdated)]
        assert spec.iterations > 50.0, "a job that ran 100 s goes on for about as long again"

    play(story, tmp_path)

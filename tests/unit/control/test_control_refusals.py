"""What is refused at submission, and what is said of room and quotas."""

from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play_on, playing
from treadle.control.jobs import without_quota
from treadle.control.jobs.elastic_command import completed, elastic_command
from treadle.control.jobs.refusals import MACHINE, PAUSE_MAX_S, REFUSALS_MAX, Refusals
from treadle.control.jobs.submission import TEXT_MAX, checked
from treadle.core.attempt import How
from treadle.core.cluster import Node
from treadle.core.errors import InvalidInputError
from treadle.core.events import AttemptEnded, JobHeld, JobReleased, JobStarted
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.engines.memory_world import MemoryWorld
from treadle.testing.builders import job
from treadle.wire.jobs import JobRequest, State
from treadle.wire.problems import InvalidRequestError


def refused(action: int) -> AttemptEnded:
    return AttemptEnded("a", action, action, How.MACHINE_ERROR, error="no more processes")


def row(action: int, phase: Phase = Phase.STARTING) -> Job:
    return Job(job("a"), 0, phase, 0.0, 0.0, action=action, attempt=action)


def test_a5_the_pause_doubles_up_to_a_minute_and_begins_anew_once_the_job_ran() -> None:
    refusals = Refusals()
    pauses = []
    now = 0.0
    for action in range(1, 9):
        assert refusals.judge(refused(action), row(action), now) == [JobHeld("a", MACHINE)]
        found = refusals.of("a")
        assert found is not None
        pauses.append(found.until_s - now)
        assert refusals.over(found.until_s - 0.001) == []
        now = found.until_s
        assert refusals.over(now) == [JobReleased("a", MACHINE)]
        assert refusals.over(now) == [], "once"
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, PAUSE_MAX_S, PAUSE_MAX_S]
    refusals.started([JobStarted("a", 9, 0.0, 1.0)])
    assert refusals.of("a") is None
    refusals.judge(refused(9), row(9), now)
    again = refusals.of("a")
    assert again is not None
    assert again.until_s == now + 1.0


def test_a5_a_report_about_an_earlier_attempt_or_an_ended_job_blocks_nothing() -> None:
    refusals = Refusals()
    assert refusals.judge(refused(3), row(4), 0.0) == []
    assert refusals.judge(refused(4), row(4, Phase.WAITING), 0.0) == []
    assert refusals.judge(refused(4), row(4, Phase.CANCELLING), 0.0) == []
    assert refusals.judge(refused(4), None, 0.0) == []
    assert refusals.judge(AttemptEnded("a", 4, 4, How.EXITED, 1), row(4), 0.0) == []


def test_a5_a_job_that_is_refused_very_often_in_a_row_has_failed() -> None:
    """Errors of its own program and folder cannot be told from the machine's."""
    refusals = Refusals()
    for action in range(1, REFUSALS_MAX + 1):
        assert refusals.bounded(refused(action)) == refused(action)
        refusals.judge(refused(action), row(action), 0.0)
    last = refusals.bounded(refused(99))
    assert (last.how, last.code) == (How.ENGINE_ERROR, 126)
    assert refusals.judge(last, row(99), 0.0) == []
    assert refusals.bounded(AttemptEnded("a", 99, 99, How.EXITED, 1)).how is How.EXITED


# -- U13: jobs that can never fit, and those that may wait for capacity ----------------------------


@playing()
async def test_u13_a_job_that_can_never_fit_is_refused_and_leaves_nothing(here: Bench) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        await here.submit("true", devices="5")
    assert str(refused.value) == (
        "the job can never run here: it asks for 5 devices and the cluster has 4"
    )
    assert refused.value.hint == (
        "submit it with --devices 4 or fewer, or with --wait-for-capacity to queue it until it fits"
    )
    assert (await here.live.jobs(ended=True)).jobs == ()
    assert await here.submit("true") == "1"


@playing()
async def test_u13_a_job_may_wait_for_capacity(here: Bench) -> None:
    """It is not said that it can never run: it is queued until there is room."""
    await here.submit("forever", devices="4")
    await here.submit("true")
    job = await here.submit("true", devices="5", wait_for_capacity=True)
    await here.settle()
    assert here.state(job) is State.PENDING
    why = await here.live.why(job)
    assert (why.code, why.never) == ("capacity", False)


# -- What people are told of quotas: whose they are, and which devices count -----------------------


def world() -> MemoryWorld:
    nodes = (Node("a", 7, "cpu"), Node("c", 2, "a100"), Node("d", 4, "h200"))
    return MemoryWorld.of(*nodes)


def test_a_tenant_that_no_quota_names_is_said_at_submission(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        wrong = JobRequest(command=("true",), tenant="visoin")
        made = await here.live.submit(ME, wrong)
        assert made.notes == (
            "no quota of the policy is for tenant visoin; there are some for nlp, vision",
        )
        right = await here.live.submit(ME, JobRequest(command=("true",), tenant="vision"))
        assert right.notes == ()

    play_on(world(), story, tmp_path, policy="weave-l?quotas=nlp:2/vision:11")


@pytest.mark.parametrize("policy", ["weave-l", "philly?quotas=equal", "antman?quotas=a:4+defrag"])
def test_no_tenant_is_missed_where_quotas_name_none_or_this_one(policy: str) -> None:
    assert without_quota(policy, "a") == ()
    assert without_quota(policy, "") == ()


# -- How much text a job may have: in bytes as they are kept and sent, not in characters -----------


@pytest.mark.parametrize(
    ("letter", "taken"), [("x", 1), ("\x01", 6), ('"', 2), ("\u00e9", 2), ("\U0001f600", 4)]
)
def test_what_takes_more_bytes_than_it_has_characters_counts_as_many(letter, taken) -> None:
    most = (TEXT_MAX - len("true")) // taken
    checked(JobRequest(command=("true",), env={"A": letter * most}))
    with pytest.raises(InvalidInputError, match="command and environment take"):
        checked(JobRequest(command=("true",), env={"A": letter * (most + 1)}))


# -- `--elastic auto`: which commands it takes, and what they become -------------------------------


@pytest.mark.parametrize(
    ("command", "becomes"),
    [
        ("python train.py --lr 1", "python -m treadle.train.auto train.py --lr 1"),
        ("/opt/bin/python3.12 -u a.py", "/opt/bin/python3.12 -u -m treadle.train.auto a.py"),
        ("python -m pkg.train x", "python -m treadle.train.auto -m pkg.train x"),
    ],
)
def test_a_python_command_is_run_by_the_training_library(command: str, becomes: str) -> None:
    request = completed(JobRequest(command=tuple(command.split()), elastic="auto"))
    assert (request.resumable, request.ranks) == (True, "device")
    assert elastic_command(request.command) == tuple(becomes.split())


@pytest.mark.parametrize("command", ["bash run.sh", "python -c pass", "python", "torchrun a.py"])
def test_other_commands_are_refused(command: str) -> None:
    request = JobRequest(command=tuple(command.split()), elastic="auto")
    with pytest.raises(InvalidInputError) as refused:
        completed(request)
    assert str(refused.value) == (
        f'elastic auto needs a command such as python train.py; found "{command}"'
    )

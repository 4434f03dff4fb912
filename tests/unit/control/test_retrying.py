"""Which failures are tried again, and which jobs are taken for jobs of one kind."""

import pytest

from tests.unit.control.memory import ME, Bench, lesson, playing
from treadle.control.learning.learned_lengths import Profiles, Question
from treadle.models.learning.kinds import by_command
from treadle.wire.jobs import JobRequest, State

MISSING = "echo ModuleNotFoundError: No module named numpyy ; exit 1"


@pytest.mark.parametrize(
    ("command", "fields", "runs"),
    [
        ("exit 7", {}, 1),  # No rule knows it.
        ("exit 7", {"retries": 2}, 3),
        ("exit 75", {}, 3),  # EX_TEMPFAIL: try again later
        ("exit 75", {"retries": 0}, 1),
        (MISSING, {"retries": 4}, 1),
    ],
)
@playing()
async def test_u20_what_may_be_otherwise_next_time_is_tried_again_or_what_a_user_asks_for(
    here: Bench, command: str, fields: dict[str, int], runs: int
) -> None:
    job = await here.submit(*command.split(), **fields)  # type: ignore[arg-type]
    await here.reached(job, State.FAILED)
    detail = await here.live.job(job)
    retried = [run.failure.retried for run in detail.attempts if run.failure]
    assert (detail.job.attempts, any(retried)) == (runs, runs > 1)


def test_u20_other_arguments_are_another_kind_of_job() -> None:
    """`sleep 10.5` on one device and `sleep 4` on two are no speed-up of 2.6."""
    profiles = Profiles()
    long, short = by_command("anna", "", ("sleep", "10.5")), by_command("anna", "", ("sleep", "4"))
    lesson(profiles, long, 1, 10.5)
    lesson(profiles, short, 2, 4.0)
    third = by_command("anna", "", ("sleep", "7"))
    assert profiles.ask(Question(third, 1, (1, 2))).profile.curve == ()
    for keys, size, length_s in ((long, 1, 10.5), (short, 2, 4.0)):
        found = profiles.ask(Question(keys, size, (1, 2)))
        assert found.profile.measured == (size,)
        assert found.learned.length.quantile(0.5) == length_s


def test_u20_a_model_makes_jobs_of_one_script_alike() -> None:
    """The user says so: jobs of one --model share what is learned."""
    profiles = Profiles()
    lesson(profiles, by_command("anna", "resnet", ("python", "train.py", "--lr", "1")), 1, 50.0)
    other = by_command("anna", "resnet", ("python", "train.py", "--lr", "2"))
    assert profiles.ask(Question(other, 1, model="resnet")).source == "jobs like it"


@playing()
async def test_the_same_command_in_another_folder_or_with_another_variable_is_not_its_own_past(
    here: Bench,
) -> None:
    """1. A job ended in one folder. 2. Its command is asked for there, elsewhere, and otherwise."""
    await here.reached(await here.submit("sleep", "0", workdir="/a"), State.SUCCEEDED)
    found = []
    for folder, env in (
        ("/a", {}),
        ("/a", {"PATH": "/other/bin"}),
        ("/b", {}),
        ("/a", {"NET": "big"}),
    ):
        request = JobRequest(command=("sleep", "0"), workdir=folder, env=env)
        length = (await here.live.dry_run(ME, request)).length
        assert length is not None
        found.append(length.because)
    same, alike = "from 1 run of this command", "from 1 similar run, other "
    assert found == [same, same, f"{alike}folder", f"{alike}$NET"]

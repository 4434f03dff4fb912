"""Which failures are tried again, and which jobs are taken for jobs of one kind."""

from pathlib import Path

from tests.unit.control.memory import ME, Bench, lesson, play, playing
from treadle.control.learning.learned_lengths import Profiles, Question
from treadle.models.learning.kinds import by_command
from treadle.wire.jobs import JobRequest, State


def _runs_of(tmp_path: Path, *command: str, **fields: object) -> tuple[int, bool]:
    """How often the job was run before it failed for good, and whether a retry was recorded."""
    found: list[tuple[int, bool]] = []

    async def story(here: Bench) -> None:
        job = await here.submit(*command, **fields)  # type: ignore[arg-type]
        await here.reached(job, State.FAILED)
        detail = await here.live.job(job)
        retried = [run.failure.retried for run in detail.attempts if run.failure]
        found.append((detail.job.attempts, any(retried)))

    play(story, tmp_path)
    return found[0]


def test_u20_a_failure_that_no_rule_knows_is_not_retried(tmp_path: Path) -> None:
    assert _runs_of(tmp_path, "exit", "7") == (1, False)


def test_u20_a_failure_that_no_rule_knows_is_retried_as_often_as_asked(tmp_path: Path) -> None:
    assert _runs_of(tmp_path, "exit", "7", retries=4) == (5, True)


def test_u20_no_retries_means_none(tmp_path: Path) -> None:
    assert _runs_of(tmp_path, "exit", "75", retries=0) == (1, False)


def test_u20_a_transient_failure_is_retried_without_being_asked(tmp_path: Path) -> None:
    runs, retried = _runs_of(tmp_path, "exit", "75")  # EX_TEMPFAIL: try again later
    assert runs > 1
    assert retried


def test_u20_a_failure_that_would_repeat_is_not_retried_even_if_asked(tmp_path: Path) -> None:
    text = "echo ModuleNotFoundError: No module named numpyy ; exit 1"
    assert _runs_of(tmp_path, *text.split(), retries=4) == (1, False)


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

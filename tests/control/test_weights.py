"""What a submission and a user may bring with them, in bytes."""

import pytest

from tests.control.asking import telling_in_memory
from tests.control.living import ME
from treadle.control.api import LiveService
from treadle.control.jobs import weights
from treadle.wire.jobs import COMMAND_SHOWN_MAX, JobRequest, in_short
from treadle.wire.problems import InvalidRequestError, TooManyError


@telling_in_memory()
async def test_an_array_of_long_commands_is_refused_before_it_costs_anything(
    live: LiveService,
) -> None:
    request = JobRequest(command=("echo", "x" * 127 * 1024), array="0-1999", held=True)
    for ask in (live.submit, live.dry_run):
        with pytest.raises(InvalidRequestError) as refusal:
            await ask(ME, request)
        assert str(refusal.value) == (
            "the commands and variables of 2,000 jobs are 248 MiB together; one submission "
            "has at most 64 MiB"
        )
        assert refusal.value.hint == "put what is long into a file that the jobs read"
    assert not live.context.jobs.records


@telling_in_memory()
async def test_what_one_user_has_queued_is_bounded_and_ends_with_the_jobs(
    live: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "USER_BYTES_MAX", 3000)
    request = JobRequest(
        command=("true",), env={"LONG": "\N{SNOWMAN}" * 300}, array="0-2", held=True, workdir="/"
    )
    first = await live.submit(ME, request)
    with pytest.raises(TooManyError, match="the limit for one user is"):
        await live.submit(ME, request)
    await live.cancel(ME, first.id)
    await live.submit(ME, request)


@telling_in_memory()
async def test_lists_have_the_beginning_of_a_long_command_and_the_detail_has_all(
    live: LiveService,
) -> None:
    command = ("/bin/bash", "-c", "true " + "x" * 100_000)
    job = (await live.submit(ME, JobRequest(command=command, held=True))).id
    (view,) = (await live.jobs()).jobs
    assert view.command == in_short(command)
    assert (await live.job(job)).job.command == command
    await live.cancel(ME, job)
    (view,) = (await live.jobs(ended=True)).jobs
    assert view.command == in_short(command)


@pytest.mark.parametrize(
    "command", [("x" * 5000,), ("ab",) * 4096, ("",) * 4096, ("a", "b" * 1998)]
)
def test_a_long_command_is_cut_and_shows_it(command: tuple[str, ...]) -> None:
    cut = in_short(command)
    assert len(" ".join(cut)) <= COMMAND_SHOWN_MAX + len("...")
    assert cut[-1].endswith("...")
    assert cut[:-1] == command[: len(cut) - 1]

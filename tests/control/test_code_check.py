"""What ran is what is recorded: code that was edited after submission is noticed and said."""

import asyncio
import os
import pwd
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.control.asking import events_of, telling, told
from tests.control.living import ME, PATIENCE, ended, until
from treadle.client.gitstate import code_state
from treadle.control.api import LiveService
from treadle.control.jobs import Diffs, Rebuilt, first_cluster
from treadle.control.jobs.code_check import NOT_CHECKED, CodeCheck
from treadle.control.jobs.records import JobRecord
from treadle.core.scheduler import Scheduler
from treadle.failures.retry import Classified, live_verdicts
from treadle.failures.rules import shipped
from treadle.journal.facts import CodeChanged
from treadle.testing import builders
from treadle.wire.jobs import Code, JobRequest, State


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    ran = subprocess.run(
        ["git", *author, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return ran.stdout.strip()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository with a script and a module, all committed."""
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "train.sh").write_text("echo old; . ./module.sh\n")
    (folder / "module.sh").write_text("echo module\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def request(work: Path, *, git: bool = True) -> JobRequest:
    made = JobRequest(command=("bash", "train.sh"), workdir=str(work), held=True)
    return replace(made, code=code_state(work, made.command, git=git))


async def _ran(live: LiveService, made: JobRequest, edit: str, path: Path) -> tuple[str, ...]:
    """Submit held, edit, release; what the record of the attempt says of its code."""
    job = (await live.submit(ME, made)).id
    path.write_text(edit)
    await live.release(ME, job)
    (view,) = await ended(live, job)
    assert view.state is State.SUCCEEDED
    return await _noticed(live, job)


async def _noticed(live: LiveService, job: str) -> tuple[str, ...]:
    """The end does not wait for the comparison, so what changed may be on record later."""
    while not (changed := (await live.job(job)).attempts[0].changed):
        await asyncio.sleep(0.01)
    return changed


async def _compared(record: JobRecord) -> tuple[CodeChanged, ...]:
    """What is said of an attempt whose end comes before the comparison is done."""
    facts: list[CodeChanged] = []
    check = CodeCheck(facts.append)
    check.begin(record, 1)
    assert check.changes("1", 1) == ()  # It has not begun, and nothing waits for it.
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
    return tuple(facts)


@telling()
async def test_u8_an_edited_script_is_noticed_at_launch_and_recorded(
    live: LiveService, work: Path
) -> None:
    script = work / "train.sh"
    first, second = await _ran(live, request(work), "echo new\n", script)
    assert first.startswith("train.sh changed after submission: it ran as of sha256 ")
    assert second == "tracked files were changed after submission, when there were no changes"
    texts = [event.text for event in await events_of(live)]
    assert any("other code than was submitted: train.sh changed" in text for text in texts)


def test_u8_what_was_not_edited_is_not_mentioned(tmp_path: Path, work: Path) -> None:
    def mentioned() -> tuple[CodeChanged, ...]:
        code = code_state(work, ("bash", "train.sh"))
        assert code is not None
        diff = Diffs(tmp_path / "code").keep(code.diff) if code.diff else ""
        record = _record(code, work, os.getuid(), os.getgid())
        return asyncio.run(_compared(replace(record, diff=diff)))

    assert mentioned() == ()
    (work / "train.sh").write_text("echo other\n")  # before submission: it is recorded
    assert mentioned() == ()


@telling()
async def test_u8_an_imported_file_a_commit_and_a_script_outside_git_are_noticed(
    live: LiveService, work: Path
) -> None:
    changed = await _ran(live, request(work), "echo other\n", work / "module.sh")
    assert changed == ("tracked files were changed after submission, when there were no changes",)
    made = request(work)  # with the change
    assert await _ran(live, made, "echo third\n", work / "module.sh") == (
        "the uncommitted changes are not those of the submission",
    )
    job = (await live.submit(ME, request(work))).id
    git(work, "commit", "-q", "-a", "-m", "second")
    await live.release(ME, job)
    await ended(live, job)
    (change,) = await _noticed(live, job)
    assert change.startswith("the commit changed after submission: it ran at ")
    (script,) = await _ran(live, request(work, git=False), "echo 4\n", work / "train.sh")
    assert script.startswith("train.sh changed after submission")


@telling()
async def test_u8_it_is_shown_while_the_job_runs(live: LiveService, work: Path) -> None:
    job = (await live.submit(ME, request(work))).id
    (work / "train.sh").write_text("exec sleep 60\n")
    await live.release(ME, job)
    await until(live, State.RUNNING, jobs=(job,))
    while not (await live.job(job)).attempts[0].changed:
        await asyncio.sleep(0.01)
    assert [event.job for event in await events_of(live, kind="CodeChanged")] == [job]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root asks as somebody else")
def test_u8_root_asks_as_the_owner_and_runs_nothing_of_the_repository(work: Path) -> None:
    """1. A file that only its owner may read. 2. The owner's check reads it, another's does not.
    3. A filter of the repository's configuration does not run."""
    trace = work / "ran"
    git(work, "config", "filter.x.clean", f"touch {trace}; cat")
    (work / ".gitattributes").write_text("* filter=x\n")
    code = code_state(work, ("bash", "train.sh"))
    assert code is not None
    (work / "train.sh").write_text("echo new\n")
    (work / "train.sh").chmod(0o600)
    nobody = pwd.getpwnam("nobody")

    async def seen(uid: int, gid: int) -> tuple[str, ...]:
        (fact,) = await _compared(_record(code, work, uid, gid))
        return fact.changes

    assert any("ran as of" in text for text in asyncio.run(seen(0, 0)))
    others = asyncio.run(seen(nobody.pw_uid, nobody.pw_gid))
    assert others[0].endswith("is gone or cannot be read")
    assert not trace.exists()


def test_a_folder_that_is_not_on_this_machine_says_nothing(work: Path) -> None:
    """A node of the cluster may have it, and nothing of it is gone."""
    code = code_state(work, ("bash", "train.sh"))
    assert code is not None
    elsewhere = {
        path.replace(str(work), "/nowhere/mine"): text for path, text in code.files.items()
    }
    code = replace(code, files=elsewhere)
    assert elsewhere
    record = replace(_record(code, work, os.geteuid(), os.getegid()), workdir="/nowhere/mine")
    assert asyncio.run(_compared(record)) == ()


def _record(code: Code | None, work: Path, uid: int, gid: int) -> JobRecord:
    return JobRecord(
        id="1",
        number=1,
        name="a",
        owner="a",
        command=("bash", "train.sh"),
        submitted_at=0.0,
        uid=uid,
        gid=gid,
        workdir=str(work),
        code=code,
    )


def test_u8_a_file_that_never_answers_does_not_hold_the_job_up(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code = Code(files={str(pipe): "0" * 64})
    (fact,) = asyncio.run(_compared(_record(code, tmp_path, os.getuid(), os.getgid())))
    assert fact == CodeChanged("1", 1, (NOT_CHECKED,))


def test_u8_an_end_does_not_wait_for_the_comparison_and_has_its_note_later(tmp_path: Path) -> None:
    """1. A job whose file never answers ends. 2. Its end is on record while the comparison runs.
    3. The note follows, and the journal alone gives the same attempt."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    made = JobRequest(
        command=("true",), workdir=str(tmp_path), code=Code(files={str(pipe): "0" * 64})
    )

    async def story(live: LiveService) -> None:
        job = (await live.submit(ME, made)).id
        await ended(live, job)
        assert (await live.job(job)).attempts[0].changed == ()
        assert await _noticed(live, job) == (NOT_CHECKED,)
        context, store = live.context, live.context.store
        retry = Classified(live_verdicts(shipped()), PATIENCE)
        policy = builders.policy("fifo")
        empty = Scheduler(policy, first_cluster(store, context.cluster), retry=retry)
        again = Rebuilt(empty).apply(store.lines(0, limit=10_000))
        assert list(again.attempts.values()) == list(store.attempts(job))

    told(story, tmp_path)

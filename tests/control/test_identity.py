"""Who is who: a store, its state folder, and every attempt. Real daemons, killed and restored."""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.control.daemons import Daemon
from tests.control.warm_start import ran
from tests.store.postgres import PostgresServer, running
from tests.waiting import until
from treadle.client.client import Client
from treadle.client.errors import NoAnswerError, UnreachableError
from treadle.control.api.history import History
from treadle.control.loop import Condition, StoreReads
from treadle.core.errors import TreadleError
from treadle.store.rows import Batch, JournalRow
from treadle.store.store import Store
from treadle.wire.jobs import JobRequest, State
from treadle.wire.problems import UnavailableError

WITHIN_S = 180.0


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    yield from running()


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short name: the path of a socket must be."""
    made = Path(tempfile.mkdtemp(prefix="treadle-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def up(folder: Path) -> Iterator[Callable[..., Daemon]]:
    """Starts daemons; all are stopped at the end, with their jobs."""
    started: list[Daemon] = []

    def start(*words: str, at: Path | None = None) -> Daemon:
        made = Daemon(at or folder, "--devices", "2", *words)
        started.append(made)
        return made.start()

    yield start
    for each in started:
        each.stop()


def leave(daemon: Daemon) -> None:
    """Stop the daemon; its jobs run on."""
    daemon.kill()


def submit(daemon: Daemon, script: str, **details: object) -> str:
    request = JobRequest(command=("/bin/sh", "-c", script), workdir="/", **details)  # type: ignore[arg-type]
    return daemon.client.submit(request).id


def log(daemon: Daemon, job: str) -> str:
    return daemon.client.log(job).text


def treadle(
    *words: str, socket: Path | None = None, home: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    env = dict(os.environ)
    env |= {} if socket is None else {"TREADLE_SOCKET": str(socket)}
    env |= {} if home is None else {"XDG_STATE_HOME": str(home)}
    return ran(*words, env=env, timeout=WITHIN_S)


def refused(*words: str) -> str:
    """The one sentence of a daemon that does not start."""
    done = treadle("up", "--foreground", "--devices", "2", *words)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("treadle: ")]
    return line


def database(state: Path) -> list[Path]:
    return [path for path in state.glob("treadle.db*") if path.suffix != ".lock"]


def said_once(path: Path, word: str) -> str:
    """A job that says that it ran, what checkpoints it found, and leaves one."""
    checkpoints = '"$TREADLE_CHECKPOINT_DIR"'
    return f"echo {word} >> {path}; echo {word}; ls {checkpoints}; touch {checkpoints}/{word}"


def check_that_numbers_begin_again(
    daemon: Daemon, ran: Path, more: str = "", **details: object
) -> None:
    """The second job 1 runs itself, sees no checkpoints, and has output of its own."""
    job = submit(daemon, said_once(ran, "second") + more, ranks="one", **details)
    assert job == "1"
    (view,) = daemon.ended(job)
    assert view.state is State.SUCCEEDED
    assert ran.read_text() == "first\nsecond\n"
    assert log(daemon, job) == "second\n"


def test_u1_a_job_of_a_new_store_runs_itself(folder: Path, up: Callable[..., Daemon]) -> None:
    """1. Job 1 runs. 2. The store is deleted, which is noticed. 3. Job 1 runs."""
    daemon = up()
    daemon.ended(submit(daemon, said_once(folder / "ran", "first")))
    leave(daemon)
    for path in database(daemon.state):
        path.unlink()
    state, socket = str(daemon.state), str(daemon.socket)
    assert "or run treadle doctor --bond to begin with a new store" in refused(
        "--state", state, "--socket", socket
    )
    assert not database(daemon.state), "a refused start leaves nothing behind"
    done = treadle("doctor", "--bond", "--state", state)
    assert done.returncode == 0, done
    daemon.start()
    check_that_numbers_begin_again(daemon, folder / "ran")


def test_u1_a_job_of_a_restored_postgresql_dump_runs_itself(
    folder: Path, up: Callable[..., Daemon], server: PostgresServer
) -> None:
    """The database is restored under another name, as from a dump."""
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("CREATE DATABASE before")
    daemon = up("--store", server.url_of("before"))
    leave(daemon)
    with psycopg.connect(server.url, autocommit=True) as admin:
        until(lambda: not _sessions(admin, "before"))
        admin.execute("CREATE DATABASE restored TEMPLATE before")
    daemon.start()
    daemon.ended(submit(daemon, said_once(folder / "ran", "first")))
    leave(daemon)
    url = server.url_of("restored")
    done = treadle("doctor", "--state", str(daemon.state), "--store", url, socket=daemon.socket)
    assert done.returncode == 0, done
    again = up("--store", url)
    check_that_numbers_begin_again(again, folder / "ran")


def _sessions(admin: "psycopg.Connection[tuple[object, ...]]", database: str) -> object:
    query = "SELECT pid FROM pg_stat_activity WHERE datname = %s"
    return admin.execute(query, (database,)).fetchone()


def test_u1_a_restored_store_knows_nothing_of_what_ran_since(
    folder: Path, up: Callable[..., Daemon]
) -> None:
    """1. An empty store is copied. 2. Job 1 runs for ever. 3. The copy is restored. 4. The old job
    1 is stopped as a stray, its devices are free, and the new job 1 is another: it runs itself, and
    has a token of its own.
    """
    daemon = up()
    leave(daemon)
    copies = [shutil.copy(path, folder / path.name) for path in database(daemon.state)]
    daemon.start()
    alive, ran = folder / "alive", folder / "ran"
    tell = f'echo "$TREADLE_JOB_TOKEN" > {folder}/'
    script = f"{said_once(ran, 'first')}; {tell}one; echo $$ > {alive}; exec sleep 3600"
    daemon.reached(State.RUNNING, submit(daemon, script))
    until(lambda: alive.exists() and alive.read_text())
    old = Path("/proc", alive.read_text().strip())
    leave(daemon)
    assert old.exists()
    for path in database(daemon.state):
        path.unlink()
    for copy in copies:
        shutil.copy(copy, daemon.state)
    daemon.start()
    until(lambda: not old.exists())
    assert "belongs to no job of this store" in (daemon.state / "daemon.log").read_text()
    check_that_numbers_begin_again(daemon, ran, f"; {tell}two", devices="2")
    assert (folder / "one").read_text() != (folder / "two").read_text()


def test_a6_a_second_daemon_in_a_state_folder_is_refused_and_stops_nothing(
    folder: Path, up: Callable[..., Daemon]
) -> None:
    daemon = up()
    job = submit(daemon, "exec sleep 3600")
    daemon.reached(State.RUNNING, job)
    other = f"sqlite:///{folder / 'other.db'}"
    said = refused("--state", str(daemon.state), "--socket", str(folder / "t"), "--store", other)
    assert said == (
        f"treadle: the state folder {daemon.state} is in use by process {daemon.pid}, with the "
        f"store {daemon.state / 'treadle.db'}; stop it (treadle down) or name another folder "
        "(--state)"
    )
    assert not (folder / "other.db").exists()
    assert daemon.view(job).state is State.RUNNING


def test_a6_a_state_folder_is_refused_to_another_store(
    folder: Path, up: Callable[..., Daemon]
) -> None:
    """The first daemon was killed; its job runs on and is not stopped as a stray."""
    daemon = up()
    job = submit(daemon, "exec sleep 3600")
    daemon.reached(State.RUNNING, job)
    leave(daemon)
    other = f"sqlite:///{folder / 'other.db'}"
    words = ("--state", str(daemon.state), "--socket", str(folder / "t"), "--store", other)
    assert f"there is no store at {folder / 'other.db'}" in refused(*words)
    Store.open(other).close()
    assert f"and {folder / 'other.db'} is store" in refused(*words)
    done = treadle("doctor", "--bond", "--state", str(daemon.state), "--store", other)
    assert done.returncode == 1, done
    assert "attempt 1 of job 1 runs" in done.stderr + done.stdout
    daemon.start()
    assert daemon.view(job).attempts == 1
    daemon.reached(State.RUNNING, job)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a6_a_store_is_refused_to_another_state_folder(
    folder: Path, up: Callable[..., Daemon], kind: str, request: pytest.FixtureRequest
) -> None:
    """Its running jobs would be started a second time there."""
    store = f"sqlite:///{folder / 'elsewhere.db'}"
    if kind == "postgresql":
        store = request.getfixturevalue("server").url
    daemon = up("--store", store)
    job = submit(daemon, f"echo run >> {folder / 'runs'}; exec sleep 3600")
    daemon.reached(State.RUNNING, job)
    until((folder / "runs").exists)
    leave(daemon)
    words = ("--socket", str(folder / "t"), "--store", store)
    said = refused("--state", str(folder / "second"), *words)
    assert f"belongs to the state folder {daemon.state}" in said
    daemon.start()
    daemon.reached(State.RUNNING, job)
    assert (folder / "runs").read_text() == "run\n"


def test_a9_a_store_that_was_unlinked_or_replaced_is_noticed_and_nothing_is_acknowledged(
    up: Callable[..., Daemon],
) -> None:
    """1. The file is moved away. 2. Submissions are refused, and the status says why. 3. Another
    file in its place is not the store. 4. The file comes back, and so does the daemon.
    """
    daemon = up()
    path = daemon.state / "treadle.db"
    away = path.with_name("away.db")
    path.rename(away)
    with pytest.raises(UnavailableError, match="was removed or replaced while Treadle uses it"):
        submit(daemon, "true")
    assert f"{path} was removed or replaced" in daemon.client.status().problem
    shutil.copy(away, path)
    with pytest.raises(UnavailableError):
        submit(daemon, "true")
    path.unlink()
    away.rename(path)
    until(lambda: not daemon.client.status().problem)
    assert daemon.ended(submit(daemon, "true"))[0].state is State.SUCCEEDED


def test_a9_a_database_that_lost_its_identity_is_noticed(
    up: Callable[..., Daemon], server: PostgresServer
) -> None:
    """Another store is put in its place while the daemon runs, which connects again."""
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("CREATE DATABASE mine")
        daemon = up("--store", server.url_of("mine"))
        with psycopg.connect(server.url_of("mine"), autocommit=True) as mine:
            mine.execute("UPDATE settings SET value = 'other' WHERE key = 'identity.store'")
            mine.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = 'mine' AND pid <> pg_backend_pid()"
            )
    with pytest.raises(UnavailableError, match=r"is another store \(other\) now"):
        submit(daemon, "true")
    assert "so nothing more is written" in daemon.client.status().problem
    daemon.kill()


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # as the daemon has left
def test_a9_a_database_that_was_made_again_takes_nothing(
    up: Callable[..., Daemon], server: PostgresServer
) -> None:
    """It was dropped and made again, empty, while the daemon ran, which says so or has left."""
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("CREATE DATABASE fleeting")
        daemon = up("--store", server.url_of("fleeting"))
        admin.execute("DROP DATABASE fleeting WITH (FORCE)")
        admin.execute("CREATE DATABASE fleeting")
    with pytest.raises((UnavailableError, UnreachableError, NoAnswerError)):
        submit(daemon, "true")
    daemon.kill()
    with psycopg.connect(server.url_of("fleeting")) as made_again:
        tables = made_again.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        assert tables.fetchone() == (0,)


def test_a3_an_event_id_of_an_earlier_store_does_not_silence_the_stream(tmp_path: Path) -> None:
    """A client that saw event 500 of the old store hears of the new one's next event."""

    async def story(store: Store) -> None:
        history = History(store)
        history.reads = StoreReads(store, Condition())
        assert (await history.events(after=500)).next == 2
        stream = history.follow(after=500)
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        line = JournalRow(1.0, 1.0, "Noted", "", b'{"what":"a","text":"b"}')
        (number,) = store.write(Batch(journal=[line]))
        history.published([line._replace(id=number)])
        assert (await asyncio.wait_for(first, WITHIN_S)).id == 3

    with Store.open(f"sqlite:///{tmp_path / 'treadle.db'}") as store:
        store.write(Batch(journal=[JournalRow(0.0, 0.0, "Decided", "", b"{}")] * 2))
        asyncio.run(story(store))


def test_doctor_finds_nothing_wrong_with_the_daemon_up_or_down(up: Callable[..., Daemon]) -> None:
    daemon = up()
    daemon.ended(submit(daemon, "true"))
    words = ("doctor", "--state", str(daemon.state))
    done = treadle(*words, socket=daemon.socket)
    assert done.returncode == 0, done
    assert f"held by process {daemon.pid}, with the store {daemon.state}/treadle.db" in done.stdout
    leave(daemon)
    done = treadle(*words, "--json", socket=daemon.socket)
    assert done.returncode == 0, done
    found = json.loads(done.stdout)
    assert found["ok"] is True
    assert {check["check"]: check["text"] for check in found["checks"]}["lock"] == "free"
    daemon.start()


def test_doctor_names_a_stray_and_a_store_that_does_not_belong_to_the_folder(
    folder: Path, up: Callable[..., Daemon]
) -> None:
    daemon = up()
    daemon.reached(State.RUNNING, submit(daemon, "exec sleep 3600"))
    other = f"sqlite:///{folder / 'other.db'}"
    done = treadle("doctor", "--state", str(daemon.state), "--store", other, socket=daemon.socket)
    assert done.returncode == 1, done
    lines = {line.split()[1]: line for line in done.stdout.splitlines()}
    assert "belongs to store" in lines["bond"]
    assert "attempt 1 of job 1 runs in" in lines["strays"]
    assert lines["strays"].startswith("problem")
    assert not (folder / "other.db").exists()


def test_doctor_says_what_is_wrong_with_what_cannot_be_read(folder: Path) -> None:
    state = folder / "state"
    done = treadle("doctor", "--state", str(state), socket=folder / "s")
    assert (done.returncode, done.stderr) == (1, "")
    assert f"{state} does not exist; treadle up makes it" in done.stdout
    state.mkdir(mode=0o755)
    (state / "identity.json").write_text("{")
    (state / "treadle.db").write_text("this is no database, and long enough to be read as one" * 99)
    done = treadle("doctor", "--state", str(state), socket=folder / "s")
    assert (done.returncode, done.stderr) == (1, "")
    problems = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("problem")}
    assert problems == {"state", "identity", "store", "bond"}


def test_a_copy_of_a_state_folder_is_refused_while_the_original_is_there(
    folder: Path, up: Callable[..., Daemon]
) -> None:
    """A copy has no locks: it would take the jobs of the original for dead, and end them."""
    daemon = up()
    job = submit(daemon, "exec sleep 3600")
    daemon.reached(State.RUNNING, job)
    leave(daemon)
    copy = folder / "copy"
    shutil.copytree(daemon.state, copy)
    words = ("--state", str(copy), "--socket", str(folder / "t"))
    assert f"{copy} is a copy of {daemon.state}" in refused(*words)
    done = treadle("doctor", "--bond", "--state", str(copy), socket=folder / "t")
    assert done.returncode == 1
    assert "attempt 1 of job 1 runs" in done.stderr
    daemon.start()
    daemon.reached(State.RUNNING, job)
    assert daemon.view(job).attempts == 1


def test_a_folder_that_was_moved_starts_where_it_is(
    folder: Path, up: Callable[..., Daemon]
) -> None:
    daemon = up()
    daemon.ended(submit(daemon, "true"))
    leave(daemon)
    daemon.state.rename(folder / "moved")
    daemon.state = folder / "moved"
    daemon.start()
    assert daemon.view("1").state is State.SUCCEEDED


def answers(socket: Path) -> bool:
    try:
        with Client(f"unix:{socket}") as client:
            return bool(client.status().pid)
    except (TreadleError, OSError):
        return False

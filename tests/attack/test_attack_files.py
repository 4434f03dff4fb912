"""Files: the daemon's, other users', and what links in a user's own folders lead to."""

import os
import stat
from pathlib import Path

import pytest

from tests.attack.conftest import Machine
from tests.waiting import until
from treadle.wire.jobs import State

TRY = """
def works(act, *words):
    try:
        act(*words)
    except OSError:
        return False
    return True

def tries(path):
    found = {
        "read": works(lambda: open(path, "rb").close()),
        "write": works(lambda: open(path, "ab").close()),
        "list": works(os.listdir, path),
        "chmod": works(os.chmod, path, 0o777),
        "rename": works(os.rename, path, path + "x"),
        "unlink": works(os.unlink, path),
        "make": works(os.mkdir, path + "/made"),
    }
    return [name for name, worked in found.items() if worked]
result = {path: tries(path) for path in PATHS}
"""


def test_a_user_reaches_nothing_in_the_state_folder(machine: Machine) -> None:
    """Every file there is tried: store, key, lock, certificate, logs, attempts, checkpoints."""
    job = machine.runs(machine.bob, "echo private > $TREADLE_CHECKPOINT_DIR/x; exec sleep 60")
    try:
        until(lambda: list(machine.daemon.state.rglob("x")))
        found = sorted(machine.daemon.state.rglob("*"))
        paths = [str(path) for path in found if not _belongs_to(path, machine.ada.uid)]
        assert any("treadle.db" in path for path in paths)
        assert any(path.endswith("/x") for path in paths)
        code = TRY.replace("PATHS", repr([str(machine.daemon.state), *paths]))
        assert {path: left for path, left in machine.ada.does(code).items() if left} == {}
    finally:
        machine.daemon.client.cancel(job)
        machine.daemon.ended(job)


def _belongs_to(path: Path, uid: int) -> bool:
    """Also of what is gone by now."""
    try:
        return path.lstat().st_uid == uid
    except FileNotFoundError:
        return True


def test_even_the_owner_of_a_job_cannot_reach_its_attempts_folder(machine: Machine) -> None:
    """Its status and its log are the daemon's: a job must not say how it ended."""
    job = machine.runs(machine.ada, "exec sleep 60")
    try:
        own = [str(path) for path in (machine.daemon.state / "jobs").rglob("*")]
        assert any(path.endswith("supervisor.json") for path in own)
        left = machine.ada.does(TRY.replace("PATHS", repr(own)))
        assert {path: found for path, found in left.items() if found} == {}
    finally:
        machine.daemon.client.cancel(job)
        machine.daemon.ended(job)


def test_modes_of_what_the_daemon_keeps(machine: Machine) -> None:
    state = machine.daemon.state
    assert stat.S_IMODE(state.stat().st_mode) & 0o066 == 0
    for path in (*state.glob("*.db*"), *state.rglob("*key*"), *state.rglob("supervisor.json")):
        found = path.stat()
        if path.is_file():
            assert (found.st_uid, stat.S_IMODE(found.st_mode) & 0o077) == (0, 0), path


def test_the_socket_is_for_all_users_and_only_to_connect(machine: Machine) -> None:
    path = str(machine.daemon.socket)
    code = f"result = [error_of(os.unlink, {path!r}), error_of(os.chmod, {path!r}, 0)]"
    assert machine.ada.does(code) == ["PermissionError"] * 2
    assert machine.asks(machine.ada, "GET", "/status")[0] == 200


# -- links


@pytest.fixture
def treasure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file and a folder that are root's."""
    folder = tmp_path_factory.mktemp("treasure")
    for each in (folder, *folder.parents):
        if each.is_relative_to("/tmp") and each != Path("/tmp"):
            each.chmod(0o755)
    (folder / "file").write_text("root's")
    (folder / "file").chmod(0o600)
    (folder / "closed").mkdir(mode=0o700)
    return folder


def test_links_in_a_checkpoint_folder_are_not_followed(machine: Machine, treasure: Path) -> None:
    """1. A job puts links to root's files there. 2. It makes way for an urgent one: the folder is
    given to the next attempt. 3. Root's files are as they were."""
    body = (
        f'cd "$TREADLE_CHECKPOINT_DIR"; [ -L link ] && exit 0; ln -s {treasure}/file link; '
        f"ln -s {treasure}/closed folder; trap 'exit 143' TERM; echo ready; "
        "while true; do sleep 0.05 & wait $!; done"
    )
    job = machine.runs(machine.ada, body, resumable=True)
    until(lambda: "ready" in machine.daemon.client.log(job).text)
    machine.submits(machine.admin, "exit 0", devices="4", priority=10)
    (view,) = machine.daemon.ended(job)
    assert (view.state, view.attempts) == (State.SUCCEEDED, 2)
    for path in (treasure / "file", treasure / "closed"):
        assert path.stat().st_uid == 0
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert (treasure / "file").read_text() == "root's"


@pytest.mark.parametrize("how", ["absolute", "link", "climbs"])
def test_a_working_directory_that_the_user_may_not_enter_is_refused(
    machine: Machine, treasure: Path, how: str
) -> None:
    link = machine.ada.home / "link"
    if how == "link":
        machine.ada.does(f"os.symlink('{treasure}/closed', '{link}'); result = 0")
    places = {
        "absolute": f"{treasure}/closed",
        "link": str(link),
        "climbs": f"{machine.ada.home}/../../..{treasure}/closed",
    }
    status, answer = machine.asks(
        machine.ada,
        "POST",
        "/jobs",
        {"command": ["touch", "mark"], "workdir": places[how], "retries": 0},
    )
    if status == 201:
        (view,) = machine.daemon.ended(str(answer["id"]))
        assert view.state is State.FAILED
    assert list((treasure / "closed").iterdir()) == []


def test_a_job_cannot_make_the_daemon_read_a_file_for_it(machine: Machine, treasure: Path) -> None:
    """A job's log is what it printed; a link in its folders changes nothing about that."""
    text = machine.prints(
        machine.ada,
        f"ln -sf {treasure}/file $HOME/rank-0.log; ln -sf {treasure}/file "
        f"$TREADLE_CHECKPOINT_DIR/rank-0.log; cat {treasure}/file; true",
    )
    assert "root's" not in text
    assert "Permission denied" in text


def test_checkpoints_are_their_owners_alone(machine: Machine) -> None:
    place = machine.prints(
        machine.bob, 'echo private > "$TREADLE_CHECKPOINT_DIR/x"; echo "$TREADLE_CHECKPOINT_DIR"'
    ).strip()
    assert os.path.lexists(place)
    code = f"result = error_of(os.listdir, {place!r}), error_of(open, {place + '/x'!r})"
    assert machine.ada.does(code) == ["PermissionError"] * 2

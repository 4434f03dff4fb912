"""A controller that runs as root: jobs run as their owners and reach their owners' files."""

import asyncio
import grp
import os
import pwd
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.control.asking import telling, told
from tests.control.daemons import daemon
from tests.control.living import ME, bash, ended, living, until
from treadle.control.api import LiveService
from treadle.control.api.tokens import fresh
from treadle.store.rows import Batch, TokenRow
from treadle.store.store import Store
from treadle.wire.jobs import State
from treadle.wire.machine import Role, TokenRequest, Who
from treadle.wire.problems import InvalidRequestError, NotAllowedError, NotKnownError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as others")

SPARE_UID = 54_321  # no user has it
NOBODY = pwd.getpwnam("nobody").pw_uid
ASK = """
import http.client, os, socket, sys
os.setgroups([int(number) for number in sys.argv[4:]])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
connection = http.client.HTTPConnection("treadle")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[2])
headers = {"Content-Type": "application/json"}
connection.request("POST", "/api/v1/jobs", sys.argv[3], headers)
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""


def test_a_users_job_resumes_from_its_own_checkpoint() -> None:
    """1. A job of user `nobody` writes a checkpoint at the stop signal. 2. It makes way for an
    urgent job. 3. Its second attempt finds what the first wrote, and others cannot."""
    entry = pwd.getpwnam("nobody")
    nobody = Who(user="nobody", role=Role.USER, uid=entry.pw_uid)
    body = (
        'f="$TREADLE_CHECKPOINT_DIR/step"; if [ -e "$f" ]; then id -un; cat "$f"; exit 0; fi; '
        "trap 'echo saved > \"$f\"; exit 143' TERM; echo ready; "
        "while true; do sleep 0.05 & wait $!; done"
    )

    async def story(folder: Path) -> None:
        async with living(folder, slots=1) as live:
            job = (await live.submit(nobody, bash(body, resumable=True, workdir="/"))).id
            await until(live, State.RUNNING, jobs=(job,))
            while (await live.log(job)).text != "ready\n":  # It has its trap.
                await asyncio.sleep(0.01)
            await live.submit(ME, bash("exit 0", workdir="/", priority=10))
            (view,) = await ended(live, job)
            assert (view.state, view.attempts) == (State.SUCCEEDED, 2)
            assert (await live.log(job)).text == "nobody\nsaved\n"
            (checkpoints,) = (folder / "state" / "checkpoints").glob(f"{job}-*")
            assert checkpoints.stat().st_uid == entry.pw_uid
            assert checkpoints.stat().st_mode & 0o077 == 0
            assert (folder / "state" / "jobs").stat().st_mode & 0o077 == 0

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        asyncio.run(story(Path(folder)))


def test_a1_a_peer_without_a_passwd_entry_cannot_submit() -> None:
    with daemon("--devices", "1") as served:
        served.socket.parent.chmod(0o755)
        mark = served.state / "mark"
        body = f'{{"command": ["touch", "{mark}"], "workdir": "/"}}'
        words = [sys.executable, "-c", ASK, str(SPARE_UID), str(served.socket), body]
        answer = _said(words)
        assert answer.startswith("401 "), answer
        assert f"this machine has no user with the id {SPARE_UID}" in answer
        assert served.client.job_page(ended=True).jobs == ()
        words[3] = str(NOBODY)
        answer = _said(words)
        assert answer.startswith("201 "), answer
        served.ended("1")
        assert not mark.exists(), "user nobody must not write into root's folder"


@telling()
async def test_a1_nothing_is_submitted_without_a_user_id(live: LiveService) -> None:
    for uid in (None, SPARE_UID):
        who = Who(user="ghost", role=Role.ADMIN, uid=uid)
        with pytest.raises(NotAllowedError) as refused:
            await live.submit(who, bash("true"))
        assert str(refused.value) == (
            "this machine has no user ghost, and Treadle, which runs as root here, runs jobs "
            "only for users that it has"
        )
        with pytest.raises(NotAllowedError, match="has no user ghost"):
            await live.dry_run(who, bash("true"))
    with pytest.raises(NotKnownError):
        live.who_of_uid(SPARE_UID)
    assert live.who_of_uid(NOBODY).user == "nobody"


@telling()
async def test_a1_a_token_is_made_only_for_a_user_of_the_machine(live: LiveService) -> None:
    with pytest.raises(InvalidRequestError, match="this machine has no user ghost"):
        await live.make_token(ME, TokenRequest(name="x", user="ghost"))
    made = await live.make_token(ME, TokenRequest(name="x", user="nobody"))
    who = live.who_of_token(made.token)
    assert who is not None
    assert (who.user, who.uid) == ("nobody", NOBODY)
    admin = Who(user="nobody", role=Role.ADMIN, uid=NOBODY)
    with pytest.raises(NotAllowedError, match="only root makes tokens for root"):
        await live.make_token(admin, TokenRequest(name="x", user="root"))


@pytest.mark.parametrize(
    ("owner", "uid"),
    [
        ("ghost", None),  # made by an older Treadle, and the user was deleted
        ("nobody", None),  # made by an older Treadle: whose it was is not known
        ("ghost", SPARE_UID),  # the user was deleted
        ("ghost", NOBODY),  # deleted, and the id is another user's now
        ("nobody", SPARE_UID),  # deleted, and the name is another user's now
        ("ghost", 0),
    ],
)
def test_a1_a_token_is_bound_to_the_user_id(tmp_path: Path, owner: str, uid: int | None) -> None:
    made = fresh()
    row = TokenRow(made.id, made.digest, "x", owner, "user", 0.0, None, None, uid)
    with Store.open(f"sqlite:///{tmp_path / 'treadle.db'}") as store:
        store.write(Batch(tokens=[row]))

    async def story(live: LiveService) -> None:
        assert live.who_of_token(made.token) is None

    told(story, tmp_path)


def test_a2_a_socket_shared_with_a_group_is_only_for_its_members() -> None:
    """1. The socket has the group and lets no others in. 2. A member is served. 3. Others are
    refused even if somebody opens the socket to all. 4. Root is served."""
    group = next(found for found in grp.getgrall() if found.gr_gid not in {0, SPARE_UID, NOBODY})
    with daemon("--devices", "1", "--share-group", group.gr_name) as served:
        served.socket.parent.chmod(0o755)
        found = served.socket.stat()
        assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o660, group.gr_gid)
        body = '{"command": ["true"], "workdir": "/"}'
        words = [sys.executable, "-c", ASK, str(NOBODY), str(served.socket), body]
        outside = subprocess.run(words, capture_output=True, text=True, check=False)
        assert "PermissionError" in outside.stderr
        inside = _said([*words, str(group.gr_gid)])
        assert inside.startswith("201 "), inside
        served.socket.chmod(0o666)
        outside_still = _said(words)
        assert outside_still.startswith("403 "), outside_still
        assert "only for members of the group that it is shared with" in outside_still
        served.ended("1")
        assert len(served.client.job_page(ended=True).jobs) == 1


def _said(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout

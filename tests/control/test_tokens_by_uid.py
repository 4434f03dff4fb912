"""Who owns what goes by user id: a name that another user has by now inherits nothing."""

import os
import pwd
from pathlib import Path

import pytest

from tests.control.asking import in_memory, telling_in_memory
from tests.control.living import ME, bash, until
from treadle.control.api import LiveService
from treadle.control.api.tokens import fresh
from treadle.server.privacy import may_read, shown
from treadle.store.rows import Batch, TokenRow
from treadle.store.store import Store
from treadle.wire.jobs import State
from treadle.wire.machine import Role, TokenRequest, Who
from treadle.wire.problems import InvalidRequestError, NotAllowedError, NotFoundError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root serves other users")

NOBODY = Who(user="nobody", role=Role.USER, uid=pwd.getpwnam("nobody").pw_uid)
DAEMON = Who(user="daemon", role=Role.USER, uid=pwd.getpwnam("daemon").pw_uid)
# The user `nobody` was deleted, and the name was given to the one who was `daemon`.
HEIR = Who(user="nobody", role=Role.USER, uid=DAEMON.uid)


@telling_in_memory()
async def test_a_user_who_gets_a_used_name_cannot_touch_the_jobs_of_the_former(
    live: LiveService,
) -> None:
    request = bash("exec sleep 60", workdir="/", grace_s=0.2, env={"TOKEN": "private"})
    job = (await live.submit(NOBODY, request)).id
    await until(live, State.RUNNING, jobs=(job,))
    for order in (live.cancel, live.hold, live.release):
        with pytest.raises(NotAllowedError, match="only its owner or an admin"):
            await order(HEIR, job)
    detail = await live.job(job)
    with pytest.raises(NotAllowedError):
        may_read(HEIR, detail.job)
    assert shown(HEIR, detail).env == {"TOKEN": "hidden"}
    may_read(NOBODY, detail.job)
    assert shown(NOBODY, detail).env == {"TOKEN": "private"}
    await live.cancel(NOBODY, job)


@telling_in_memory()
async def test_an_idempotency_key_is_of_a_user_id(live: LiveService) -> None:
    request = bash("true", workdir="/")
    first = await live.submit(NOBODY, request, "key")
    assert (await live.submit(NOBODY, request, "key")).repeated
    other = await live.submit(HEIR, request, "key")
    assert (other.repeated, other.id != first.id) == (False, True)


@telling_in_memory()
async def test_tokens_are_listed_and_revoked_by_user_id(live: LiveService) -> None:
    mine = (await live.make_token(NOBODY, TokenRequest(name="a"))).view
    other = (await live.make_token(DAEMON, TokenRequest(name="b"))).view
    assert live.tokens(HEIR) == (), "neither of the name before nor of the id"
    with pytest.raises(NotFoundError):
        await live.revoke_token(HEIR, mine.id)
    assert live.tokens(NOBODY) == (mine,)
    assert live.tokens(ME) == (mine, other)
    assert live.tokens(ME, user="daemon") == (other,)
    with pytest.raises(NotAllowedError, match="only an admin"):
        live.tokens(NOBODY, user="daemon")
    with pytest.raises(NotAllowedError, match="only an admin"):
        await live.revoke_tokens(NOBODY, user="daemon")


def test_all_tokens_of_a_user_are_revoked_at_once_and_stay_so(tmp_path: Path) -> None:
    made: list[str] = []

    async def first(live: LiveService) -> None:
        made.extend(
            [(await live.make_token(NOBODY, TokenRequest(name=name))).token for name in "abc"]
        )
        kept = await live.make_token(DAEMON, TokenRequest(name="d"))
        gone = await live.revoke_tokens(NOBODY)
        assert [view.name for view in gone] == ["a", "b", "c"]
        assert live.tokens(ME) == (kept.view,)
        assert [view.name for view in await live.revoke_tokens(ME, user="daemon")] == ["d"]
        assert await live.revoke_tokens(NOBODY) == ()
        assert [live.who_of_token(token) for token in made] == [None] * 3

    async def second(live: LiveService) -> None:
        assert [live.who_of_token(token) for token in made] == [None] * 3
        assert live.tokens(ME) == ()

    in_memory(first, tmp_path)
    in_memory(second, tmp_path)


def test_an_admin_revokes_the_tokens_of_a_user_who_was_removed(tmp_path: Path) -> None:
    old = fresh()
    row = TokenRow(old.id, old.digest, "x", "ghost", "user", 0.0, None, None, 54_321)
    with Store.open(f"sqlite:///{tmp_path / 'treadle.db'}") as store:
        store.write(Batch(tokens=[row]))

    async def story(live: LiveService) -> None:
        assert live.who_of_token(old.token) is None
        assert [view.id for view in live.tokens(ME, user="ghost")] == [old.id]
        assert [view.id for view in await live.revoke_tokens(ME, user="ghost")] == [old.id]

    in_memory(story, tmp_path)


@telling_in_memory()
async def test_every_token_expires(live: LiveService) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        await live.make_token(NOBODY, TokenRequest(name="x", days=None))
    assert str(refused.value) == "a token expires: days should be above 0 and at most 3650"
    view = (await live.make_token(NOBODY, TokenRequest(name="x"))).view
    assert view.expires_at is not None
    assert round((view.expires_at - view.created_at) / 86_400) == 90


def test_where_a_token_was_used_from_is_kept(tmp_path: Path) -> None:
    made: list[str] = []

    async def first(live: LiveService) -> None:
        token = (await live.make_token(NOBODY, TokenRequest(name="x"))).token
        made.append(token)
        assert live.tokens(NOBODY)[0].used_from == ""
        live.who_of_token(token, "192.0.2.7")
        live.who_of_token(token, "192.0.2.8")
        assert live.tokens(NOBODY)[0].used_from == "192.0.2.8"
        await live._accounts.write_used()

    async def second(live: LiveService) -> None:
        assert live.tokens(NOBODY)[0].used_from == "192.0.2.8"

    in_memory(first, tmp_path)
    in_memory(second, tmp_path)


@telling_in_memory(admins=frozenset({"nobody"}))
async def test_an_admin_is_a_user_id_too(live: LiveService) -> None:
    """`--admin NAME` means the user who had the name when the daemon started."""
    assert NOBODY.uid is not None
    assert live.who_of_uid(NOBODY.uid).role is Role.ADMIN

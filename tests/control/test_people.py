"""Tokens of people and of jobs: made, used, run out, revoked, and kept over a restart."""

import asyncio
import inspect
import pwd
from pathlib import Path

import pytest

from tests.control.asking import in_memory, runs, telling_in_memory
from tests.control.living import ME, bash, ended, living, text_of
from tests.telling import within
from treadle.control.api import LiveService
from treadle.control.api import accounts as people_module
from treadle.control.api.tokens import job_token
from treadle.wire.machine import Role, TokenRequest, Who
from treadle.wire.problems import ConflictError, InvalidRequestError, NotAllowedError, NotFoundError

# A user that every machine has: under root, tokens are only for such.
USER = Who(user="nobody", role=Role.USER, uid=pwd.getpwnam("nobody").pw_uid)

DAEMON = Who(user="daemon", role=Role.USER, uid=pwd.getpwnam("daemon").pw_uid)


def test_a_token_is_who_it_was_made_for_until_it_is_revoked(tmp_path: Path) -> None:
    made = {}

    async def first(live: LiveService) -> None:
        answer = await live.make_token(USER, TokenRequest(name="laptop"))
        made["token"], made["id"] = answer.token, answer.view.id
        who = live.who_of_token(answer.token)
        assert who is not None
        assert (who.user, who.role, who.job) == ("nobody", Role.USER, "")
        assert live.who_of_token(answer.token[:-1] + "x") is None
        assert live.who_of_token("") is None

    async def second(live: LiveService) -> None:
        assert live.who_of_token(made["token"]) is not None
        again = live.looking_up(made["token"])
        assert again() == live.who_of_token(made["token"])
        assert made["token"] not in inspect.getclosurevars(again).nonlocals.values()
        await live._accounts.write_used()
        with pytest.raises(NotFoundError):
            await live.revoke_token(Who(user="third", role=Role.USER), made["id"])
        await live.revoke_token(USER, made["id"])
        assert live.who_of_token(made["token"]) is None
        assert again() is None
        assert live.tokens(ME) == ()

    async def third(live: LiveService) -> None:
        assert live.who_of_token(made["token"]) is None

    for story in (first, second, third):
        in_memory(story, tmp_path)


@telling_in_memory()
async def test_no_user_grants_a_role_above_their_own(live: LiveService) -> None:
    with pytest.raises(NotAllowedError, match="you cannot grant more than you have"):
        await live.make_token(USER, TokenRequest(name="x", role=Role.ADMIN))
    with pytest.raises(NotAllowedError, match="only an admin makes tokens for me"):
        await live.make_token(USER, TokenRequest(name="x", user="me"))
    for bad in (TokenRequest(name=" "), TokenRequest(name="x", days=0.0)):
        with pytest.raises(InvalidRequestError):
            await live.make_token(USER, bad)


@telling_in_memory()
async def test_tokens_that_were_revoked_make_room_for_others(
    live: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people_module, "TOKENS_OF_ONE_MAX", 2)
    for _ in range(5):
        answer = await live.make_token(USER, TokenRequest(name="x"))
        await live.revoke_token(USER, answer.view.id)
    for _ in range(2):
        await live.make_token(USER, TokenRequest(name="x"))
    with pytest.raises(ConflictError, match="nobody has 2 tokens already; revoke some first"):
        await live.make_token(USER, TokenRequest(name="x"))


@telling_in_memory()
async def test_a13_the_limit_on_tokens_is_each_users_own(
    live: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people_module, "TOKENS_OF_ONE_MAX", 2)
    for _ in range(2):
        await live.make_token(USER, TokenRequest(name="x"))
    with pytest.raises(ConflictError):
        await live.make_token(USER, TokenRequest(name="x"))
    assert (await live.make_token(DAEMON, TokenRequest(name="x"))).view.user == "daemon"
    with pytest.raises(ConflictError, match="nobody has 2 tokens"):
        await live.make_token(ME, TokenRequest(name="x", user="nobody"))


@telling_in_memory()
async def test_a13_expired_tokens_do_not_count(
    live: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people_module, "TOKENS_OF_ONE_MAX", 2)
    for _ in range(3):  # Each lasts for less than a microsecond.
        made = await live.make_token(USER, TokenRequest(name="x", days=1e-12))
        assert live.who_of_token(made.token) is None
    for _ in range(2):
        await live.make_token(USER, TokenRequest(name="x"))
    assert len(live.tokens(USER)) == 2


@within(180)
async def test_a_jobs_token_is_good_for_that_job_and_as_long_as_it_lasts(tmp_path: Path) -> None:
    async with living(tmp_path) as live:
        job = await runs(live, 'echo "$TREADLE_JOB_TOKEN"; exec sleep 60')
        nonce = live.context.jobs.records[job].nonce
        token = job_token(live.context.seal.derive("tokens of jobs"), job, nonce)
        who = live.who_of_token(token)
        assert who is not None
        assert (who.job, who.role) == (job, Role.VIEWER)
        while not await text_of(live, job):
            await asyncio.sleep(0.01)
        assert token not in await text_of(live, job)  # It is a secret like the others.
        await live.cancel(ME, job)
        await ended(live, job)
        assert live.who_of_token(token) is None


@telling_in_memory()
async def test_old_keys_are_let_go(live: LiveService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.control.loop.commit.KEYS_KEPT_S", -10.0)
    await live.submit(ME, bash("true"), "key")
    assert live.context.store.key(ME.account, "key") is not None
    await live.context.commit.tidy()
    assert live.context.store.key(ME.account, "key") is None

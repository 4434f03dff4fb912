"""One configuration for all users: it counts as a whole or not at all, and over a restart."""

import os
from pathlib import Path

import pytest

from tests.control.asking import in_memory, looked_at, telling_in_memory
from tests.control.living import ME, bash
from treadle.control.api import LiveService
from treadle.wire.jobs import JobChange, State
from treadle.wire.lab import ConfigChange
from treadle.wire.machine import PolicyChange, Role, Who
from treadle.wire.problems import (
    ConflictError,
    InvalidRequestError,
    NotAllowedError,
    RequestError,
    TooManyError,
)

ANN = Who(user="ann", role=Role.USER, uid=os.geteuid() + 1)
BOB = Who(user="bob", role=Role.USER, uid=os.geteuid() + 2)
LAB = """\
# our lab
policy: fifo
limits: {running: 2, queued: 3, time_limit: 2d}
users: {bob: {weight: 2, limits: {devices: 1, time_limit: 1h}}}
tenants:
  vision: {members: [ann]}
  nlp: {members: [ann, bob], quota: 1, limits: {devices: 2}}
"""


@telling_in_memory()
async def test_jobs_keep_to_it_from_the_moment_it_is_set(live: LiveService) -> None:
    before = (await live.submit(ANN, bash("sleep 60", time_limit_s=1e6))).id
    view = await live.configure(ME, ConfigChange(text=LAB))
    assert (view.version, view.set_by, live.config().text) == (1, "me", LAB)
    assert live.policy().policy == "fifo"

    def asked(**fields: object) -> object:
        return bash("sleep 60", **fields)

    for who, request, kind in (
        (ANN, asked(time_limit_s=2 * 86_400.0 + 1.0), InvalidRequestError),
        (BOB, asked(time_limit_s=7200.0), InvalidRequestError),
        (BOB, asked(devices="2"), InvalidRequestError),
        (ANN, asked(tenant="nlp", devices="3..4"), InvalidRequestError),
        (BOB, asked(tenant="vision"), NotAllowedError),
        (BOB, asked(tenant="visoin"), NotAllowedError),
        (BOB, asked(array="0-3"), TooManyError),
    ):
        with pytest.raises(kind):
            await live.submit(who, request)  # type: ignore[arg-type]
    bobs = [await live.submit(BOB, bash("sleep 60")) for _ in range(2)]
    await looked_at(live)
    first, second = [(await live.job(each.id)) for each in bobs]
    assert (first.job.tenant, first.time_limit_s) == (
        "nlp",
        3600.0,
    )  # the only one, and the longest
    assert first.job.state in (State.STARTING, State.RUNNING)
    assert second.job.cause == "limit"
    await live.submit(ANN, bash("sleep 60"))
    third = (await live.submit(ANN, bash("sleep 60"))).id
    await looked_at(live)
    assert (await live.job(third)).job.cause == "limit"  # two of hers run, with the one of before
    assert (await live.job(third)).job.tenant == ""  # which of her two was not said
    assert (await live.job(before)).time_limit_s == 1e6
    with pytest.raises(InvalidRequestError):
        await live.change(BOB, bobs[1].id, JobChange(time_limit_s=7200.0))
    for tenant in ("vision", ""):
        with pytest.raises(NotAllowedError):
            await live.change(BOB, bobs[1].id, JobChange(tenant=tenant))
    with pytest.raises(InvalidRequestError):
        await live.change(BOB, bobs[1].id, JobChange(devices="2"))
    await live.change(ME, bobs[1].id, JobChange(time_limit_s=7200.0))


@telling_in_memory()
async def test_a_change_of_another_version_or_one_that_is_wrong_changes_nothing(
    live: LiveService,
) -> None:
    await live.configure(ME, ConfigChange(text=LAB, version=0))
    wrong: list[tuple[ConfigChange, type[RequestError]]] = [
        (ConfigChange(text="policy: srtf", version=0), ConflictError),
        (ConfigChange(text="policy: nothing"), InvalidRequestError),
        (ConfigChange(text="limits: {running: many}"), InvalidRequestError),
    ]
    for change, kind in wrong:
        with pytest.raises(kind):
            await live.configure(ME, change)
    assert (live.config().version, live.config().text) == (1, LAB)
    assert live.policy().policy == "fifo"


def test_it_outlives_the_controller_and_holds_under_every_policy(tmp_path: Path) -> None:
    async def first(live: LiveService) -> None:
        await live.configure(ME, ConfigChange(text=LAB))

    async def second(live: LiveService) -> None:
        assert live.config().version == 1
        for policy in ("srtf", "fifo?fair=off"):
            await live.set_policy(ME, PolicyChange(policy=policy))
            wrapped = live.context.charge.wrapped
            assert "quotas=vision:0/nlp:1" in wrapped
            assert "limits=bob:1:2/@nlp:2:/*::2" in wrapped
            assert wrapped.count("fair=") == 1
        assert "fair=off" in live.context.charge.wrapped  # what is named goes above the file
        await live.configure(ME, ConfigChange(text=""))
        assert live.context.charge.wrapped == "fifo+live?fair=off"

    for story in (first, second):
        in_memory(story, tmp_path)

"""What people are told of quotas: whose they are, and which devices count."""

from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play_on
from treadle.control.jobs import without_quota
from treadle.core.cluster import Node
from treadle.engines.memory_world import MemoryWorld
from treadle.wire.jobs import JobRequest


def world() -> MemoryWorld:
    nodes = (Node("a", 7, "cpu"), Node("c", 2, "a100"), Node("d", 4, "h200"))
    return MemoryWorld.of(*nodes)


def test_only_devices_that_the_job_may_use_are_counted(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        for _ in range(6):
            await here.submit("forever", devices="1", tenant="vision", exclusive=True)
            await here.settle()
        job = await here.submit("forever", devices="1", tenant="vision", exclusive=True)
        await here.settle()
        why = await here.live.why(job)
        assert (why.code, why.numbers["free"], why.numbers["total"]) == ("type", 0, 6)

    play_on(world(), story, tmp_path, policy="philly?quotas=nlp:2/vision:11&most=1")


def test_a_tenant_that_no_quota_names_is_said_at_submission(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        wrong = JobRequest(command=("true",), tenant="visoin")
        made = await here.live.submit(ME, wrong)
        assert made.notes == (
            "no quota of the policy is for tenant visoin; there are some for nlp, vision",
        )
        right = await here.live.submit(ME, JobRequest(command=("true",), tenant="vision"))
        assert right.notes == ()

    play_on(world(), story, tmp_path, policy="weave-l?quotas=nlp:2/vision:11")


@pytest.mark.parametrize("policy", ["weave-l", "philly?quotas=equal", "antman?quotas=a:4+defrag"])
def test_no_tenant_is_missed_where_quotas_name_none_or_this_one(policy: str) -> None:
    assert without_quota(policy, "a") == ()
    assert without_quota(policy, "") == ()

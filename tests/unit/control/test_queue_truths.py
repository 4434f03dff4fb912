"""What the queue says of quotas, places, starts and free devices is what `why` says."""

from pathlib import Path

import pytest

from tests.unit.control.memory import Bench, play
from treadle.wire.jobs import State


@pytest.mark.parametrize(
    ("policy", "deserved"),
    [
        ("philly?quotas=lab:3/shop:1", {"lab": 3.0, "shop": 1.0}),
        ("philly", {"lab": 4.0}),
        ("weave-l?quotas=lab:3/shop:1+priority", {"lab": 3.0, "shop": 1.0}),
        ("weave?quotas=lab:3/shop:1", {"lab": 3.0, "shop": 1.0}),
        ("rubick?quotas=lab:2", {"lab": 2.0}),
        ("antman?quotas=lab:2", {"lab": 2.0}),
        ("antman", {"lab": None}),
        ("fifo", {"lab": None}),
    ],
)
def test_the_quotas_of_every_policy_that_has_some_are_shown(
    tmp_path: Path, policy: str, deserved: dict[str, float | None]
) -> None:
    async def story(here: Bench) -> None:
        await here.reached(await here.submit("forever", tenant="lab"), State.RUNNING)
        shares = (await here.live.queue()).shares
        assert {share.tenant: share.deserved for share in shares} == deserved

    play(story, tmp_path, policy=policy)

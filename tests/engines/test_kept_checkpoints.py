"""Jobs on nodes that do not see each other's checkpoints: they say where those are."""

from pathlib import Path

import pytest
from tests.engines.fleet_story import FleetStory, spread, tell, telling

from treadle.core.actions import Start, Stop
from treadle.core.attempt import How
from treadle.core.job import ONE_NODE
from treadle.core.launch import CHECKPOINT_DIR

# Notes what it finds, adds a file of its own, and waits.
WRITES = (
    'ls "$TREADLE_CHECKPOINT_DIR" > found-$TREADLE_ATTEMPT-$RANK; '
    'echo 1 > "$TREADLE_CHECKPOINT_DIR/$TREADLE_ATTEMPT"; '
    "[ $RANK = 1 ] || touch wrote-$TREADLE_ATTEMPT; exec sleep 86400"
)


async def runs(bench: FleetStory, attempt: int, *nodes: str) -> tuple[str, ...]:
    """The next attempt writes there, and is stopped; where it says that its checkpoints are."""
    await bench.order(Start(2 * attempt, "a", spread(*nodes)))
    started = await bench.started("a", 2 * attempt)
    await bench.until((bench.root / f"wrote-{attempt}").exists)
    await bench.order(Stop(2 * attempt + 1, "a"))
    await bench.ended("a", 2 * attempt + 1)
    return started.kept_on


def found(bench: FleetStory, attempt: int) -> list[str]:
    return (bench.root / f"found-{attempt}-0").read_text().split()


@telling(apart=True)
async def test_checkpoints_are_on_the_node_that_wrote_them_and_not_copied(
    bench: FleetStory,
) -> None:
    bench.job("a", "sh", "-c", WRITES, keeps_checkpoints=True)
    assert await runs(bench, 1, "n0") == ("n0",)
    assert await runs(bench, 2, "n1") == ("n1",)
    assert await runs(bench, 3, "n0") == ("n0",)
    assert (found(bench, 2), found(bench, 3)) == ([], ["1"])


@pytest.mark.parametrize("place", ["", "own"])
def test_checkpoints_that_all_nodes_see_bind_a_job_to_none(tmp_path: Path, place: str) -> None:
    """In the controller's folder, or in one that the job names itself."""

    async def story(bench: FleetStory) -> None:
        own = {CHECKPOINT_DIR: str(tmp_path / place)} if place else {}
        (tmp_path / "own").mkdir()
        # The controller says of a job with a place of its own that it keeps none in ours.
        bench.job("a", "sh", "-c", WRITES, env=own, keeps_checkpoints=not own)
        assert await runs(bench, 1, "n0") == ()
        assert await runs(bench, 2, "n1", "n2") == ()
        assert found(bench, 2)[0] == "1"
        assert (tmp_path / "own" / "2").exists() == bool(place)

    tell(tmp_path, story, apart=bool(place))


@telling(apart=True)
async def test_a_resumable_job_keeps_to_one_node_if_its_nodes_share_no_checkpoints(
    bench: FleetStory,
) -> None:
    bench.job("a", "sh", "-c", WRITES, keeps_checkpoints=True)
    await bench.order(Start(0, "a", spread("n1", "n2")))
    refused = await bench.ended("a", 0)
    assert (refused.attempt, refused.how) == (0, How.MACHINE_ERROR)
    assert (refused.only_on, refused.only_because) == (("n1",), ONE_NODE)
    assert await runs(bench, 2, "n1") == ("n1",)

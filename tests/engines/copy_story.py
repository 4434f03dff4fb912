"""Parts of stories about checkpoints on nodes that have no file system in common."""

from pathlib import Path

from tests.engines.fleet_story import FleetStory, spread

from treadle.core.actions import Start, Stop

# Notes what it finds, adds a file of its own, and waits.
WRITES = (
    'ls "$TREADLE_CHECKPOINT_DIR" > found-$TREADLE_ATTEMPT-$RANK; '
    'echo "attempt $TREADLE_ATTEMPT" > "$TREADLE_CHECKPOINT_DIR/$TREADLE_ATTEMPT-$RANK"; '
    "touch wrote-$TREADLE_ATTEMPT-$RANK; exec sleep 86400"
)


def found(bench: FleetStory, attempt: int, rank: int = 0) -> list[str]:
    """The checkpoints that a rank found when it began."""
    return (bench.root / f"found-{attempt}-{rank}").read_text().split()


def folder(bench: FleetStory, node: str) -> Path:
    return bench.root / "nodes" / node / "checkpoints" / "a"


async def runs(bench: FleetStory, order: int, attempt: int, *nodes: str) -> None:
    """Start the next attempt there, and wait until it has written."""
    await bench.order(Start(order, "a", spread(*nodes)))
    await bench.started("a", order)
    wrote = [bench.root / f"wrote-{attempt}-{rank}" for rank in range(len(nodes))]
    await bench.until(lambda: all(path.exists() for path in wrote))


async def ran(bench: FleetStory, node: str) -> None:
    """The first attempt of a job has written there, and was stopped."""
    bench.job("a", "sh", "-c", WRITES)
    await runs(bench, 0, 1, node)
    await stop(bench, 1)


def often(bench: FleetStory) -> None:
    """Copies are made all the time."""
    bench.copy_every_s = 0.02
    bench.fresh_engine()


async def stop(bench: FleetStory, order: int) -> None:
    await bench.order(Stop(order, "a"))
    await bench.ended("a", order)

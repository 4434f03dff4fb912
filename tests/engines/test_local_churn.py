"""Many orders in any order: every one is answered, nothing overlaps, and nothing is left open."""

import random
from pathlib import Path
from shutil import which

import pytest
from tests.engines.bench import Story, on, telling

from treadle.core.actions import Change, Start, Stop
from treadle.core.events import JobFailed, JobFinished, JobStarted, JobStopped
from treadle.engines.node import environment, processes
from treadle.engines.node.environment import TAG

# The lock stands for the device: a job that finds it taken was launched too early.
USES = 'exec 9> "$0-$TREADLE_DEVICES"; flock --nonblock 9 || exit 9; '
LONG = USES + "exec sleep 600"


def _files() -> int:
    """Open ones; ports that are kept bound are bounded by themselves."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir()) - len(environment._kept)


@pytest.mark.skipif(which("flock") is None, reason="needs flock of util-linux")
@pytest.mark.parametrize("seed", range(2))
@telling(slots=3)
async def test_every_order_is_answered_and_no_device_is_used_twice_at_once(
    bench: Story, tmp_path: Path, seed: int
) -> None:
    """As a scheduler would, the story books devices for jobs and hands them on before they are
    free, with `after`.
    """
    rng = random.Random(seed)
    names = [f"j{number}" for number in range(2)]
    for name in names:
        bench.job(name, "sh", "-c", LONG, str(tmp_path / "device"))
    files = _files()
    holder: dict[int, str] = {}  # device -> job, as booked
    action = 0
    for _ in range(40):
        device, name = rng.randrange(3), rng.choice(names)
        before = holder.get(device)
        booked = next((d for d, job in holder.items() if job == name), None)
        after: tuple[str, ...] = ()
        if before is not None and before != name:
            await bench.order(Stop(action, before))
            action += 1
            after = (before,)
        if booked is not None:
            del holder[booked]
        kind = Start if booked is None else Change
        await bench.order(kind(action, name, on(device), after))
        holder[device] = name
        action += 1
        if rng.random() < 0.5:
            await bench.event()
        # What ended by itself holds nothing any more.
        gone = [d for d, job in holder.items() if job not in bench.engine.courses]
        for each in gone:
            del holder[each]
    for name in set(holder.values()):
        await bench.order(Stop(action, name))
        action += 1
    await bench.until(lambda: not bench.engine.courses and not bench.machine.runs)
    while not bench.inbox.empty():
        event = await bench.event()
        assert isinstance(event, JobStarted | JobStopped | JobFinished | JobFailed)
    assert not [ended for ended in bench.ends if ended.code not in (0, 143)]
    launched = sum(len(bench.folders.attempts(name)) for name in names)
    assert len(bench.ends) == launched > 5
    assert not processes.tagged(TAG, f"{bench.folders.instance}*")
    assert not bench.machine.holders.by_slot
    assert not bench.folders.live()
    assert _files() <= files + 2  # the fork server's socket and self-pipe

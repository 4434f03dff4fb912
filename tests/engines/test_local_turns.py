"""Jobs that the local engine puts on one device take turns of it, if that is ordered."""

import textwrap
from itertools import combinations

from tests.engines.bench import Story, on, telling

from treadle.core.actions import Start

# It works in turns once it is told to; each line is a spell of work with the device.
WORKS = textwrap.dedent("""
    import os, time
    from treadle.train.stages import Stages, TurnClient
    turns = TurnClient.from_environment(os.environ)
    stages = Stages(turns)
    print("begins", turns is not None, flush=True)
    until = time.monotonic() + 20
    while turns is not None and not turns.wanted and time.monotonic() < until:
        turns.take("device")
    for _ in range(20):
        with stages.stage("compute"):
            begun = time.monotonic()
            while time.monotonic() < begun + 0.01:
                pass
            print("spell", begun, time.monotonic(), flush=True)
        stages.step_done()
    print("ends", flush=True)
""")


def spells(log: str) -> list[tuple[float, float]]:
    lines = [line.split() for line in log.splitlines() if line.startswith("spell")]
    return [(float(begun), float(ended)) for _, begun, ended in lines]


@telling(turns="turns")
async def test_two_jobs_on_one_device_are_never_in_it_at_the_same_time(bench: Story) -> None:
    for name in ("a", "b"):
        bench.job(name, "python", "-c", WORKS, may_share=True)
    await bench.order(Start(1, "a", on(0)), Start(2, "b", on(0, turn=1)))
    await bench.ended()
    await bench.ended()
    assert [end.code for end in bench.ends] == [0, 0]
    first, second = spells(bench.log("a")), spells(bench.log("b"))
    assert len(first) == len(second) == 20
    for (begun, ended), (other_begun, other_ended) in combinations(sorted(first + second), 2):
        assert ended <= other_begun or other_ended <= begun


@telling(turns="turns")
async def test_a_job_that_shares_with_no_other_is_told_nothing(bench: Story) -> None:
    bench.job("a", "python", "-c", WORKS)
    await bench.order(Start(1, "a", on(0)))
    await bench.ended()
    assert "begins False" in bench.log("a")

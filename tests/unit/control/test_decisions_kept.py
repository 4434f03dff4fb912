"""Reasons outlive the daemon, within bounds; another policy is a reason too."""

from pathlib import Path

from tests.unit.control.memory import ME, Bench, play, play_on
from treadle.control.api import decisions_on_disk
from treadle.control.api.decisions_on_disk import KeptDecisions, read, text_of
from treadle.core.cluster import Node
from treadle.engines.memory_world import MemoryWorld
from treadle.wire.decisions import Decision, DecisionChange
from treadle.wire.jobs import State
from treadle.wire.machine import PolicyChange


def decision(number: int, because: str = "") -> Decision:
    change = DecisionChange(job="1", kind="start", before=(), after=("here:0",), because=because)
    return Decision(
        id=number,
        at=float(number),
        policy="fifo",
        cpu_ms=0.1,
        events=(),
        changes=(change,),
        running=1,
        waiting=0,
        free=0,
    )


def test_the_reason_of_a_start_is_known_to_the_next_daemon(tmp_path: Path) -> None:
    world = MemoryWorld.of(Node("here", 2, "none"))

    async def starts(here: Bench) -> None:
        await here.reached(await here.submit("forever"), State.RUNNING)

    async def goes_on(here: Bench) -> None:
        page = here.live.decisions()
        [change] = page.decisions[0].changes
        assert change.because == "me submitted job 1 for 1 device"
        await here.reached(await here.submit("forever"), State.RUNNING)
        while not (later := here.live.decisions(after=page.next).decisions):
            await here.settle()
        assert later[0].id > page.next, "ids go on"

    play_on(world, starts, tmp_path)
    play_on(world, goes_on, tmp_path)


def test_a_change_names_the_order_that_carries_it_out_and_so_does_the_event(tmp_path: Path) -> None:
    """The orders of two daemons have one count: a reason goes with one order alone."""
    world = MemoryWorld.of(Node("here", 2, "none"))
    first: list[str] = []

    async def starts(here: Bench) -> None:
        first.append(await here.submit("forever"))
        await here.reached(first[0], State.RUNNING)

    async def goes_on(here: Bench) -> None:
        second = await here.submit("forever")
        await here.reached(second, State.RUNNING)
        while not here.live.decisions(job=second).decisions:
            await here.settle()
        made = {
            change.order: change.job
            for decision in here.live.decisions().decisions
            for change in decision.changes
        }
        events = (await here.live.events(limit=1000)).events
        orders = {each.body["id"]: each.job for each in events if each.kind == "Start"}
        assert made == orders
        assert sorted(made.values()) == [first[0], second]

    play_on(world, starts, tmp_path)
    play_on(world, goes_on, tmp_path)


def test_of_too_many_the_newest_are_kept_and_from_when_on_is_said(monkeypatch) -> None:
    one = len(text_of(KeptDecisions(0.0, 1, 0, (decision(1),))))
    monkeypatch.setattr(decisions_on_disk, "BYTES_MAX", 3 * one)
    made = tuple(decision(number) for number in range(1, 10))
    found = read(text_of(KeptDecisions(0.5, 9, 4, made)), 100.0)
    assert 2 <= len(found.decisions) <= 4
    assert found.decisions[-1] == made[-1]
    assert found.since_at == found.decisions[0].at
    assert (found.last_id, found.others) == (9, 4)


def test_what_cannot_be_read_is_as_if_nothing_was_kept() -> None:
    for text in (None, "", "{", '{"since_at": 1.0, "decisions": [{"of": "another format"}]}'):
        assert read(text, 7.0) == KeptDecisions(7.0)


def test_a_start_that_follows_from_another_policy_says_so(tmp_path: Path) -> None:
    """Under fifo a job waits behind a large one; the other policy lets it overtake."""

    async def story(here: Bench) -> None:
        await here.reached(await here.submit("forever"), State.RUNNING)
        await here.submit("forever", devices="2", estimate_s=1000)
        small = await here.submit("forever", estimate_s=10)
        await here.settle()
        assert here.state(small) is State.PENDING
        await here.live.set_policy(ME, PolicyChange(policy="srtf"))
        await here.reached(small, State.RUNNING)
        while not (found := here.live.decisions(job=small).decisions):
            await here.settle()
        assert found[0].events[0] == "the policy is now srtf"
        [change] = found[0].changes
        assert change.because

    play(story, tmp_path, devices=2, policy="fifo")

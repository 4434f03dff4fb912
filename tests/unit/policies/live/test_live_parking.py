"""Paused jobs under the live decision: where they go on, and what they keep meanwhile."""

from dataclasses import replace

import pytest

from tests.unit.stories import Story
from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.allocation import Pause
from treadle.core.cluster import Cluster, Node
from treadle.core.errors import InvalidInputError
from treadle.core.events import JobFinished, JobHeld, JobPaused, JobReleased, JobStarted
from treadle.core.events import JobSubmitted as Submitted
from treadle.core.job import JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.policies.live.patience import AGAIN, LENGTHS, WAIT_S
from treadle.testing.builders import job, policy

POLICIES = ("fifo", "backfill", "srtf", "afs", "las", "max-min", "weave-l", "muri-l", "tiresias")
BOTH = (Pause.FROZEN, Pause.SUSPENDED)


def rigid(name: str) -> JobSpec:
    return replace(job(name, length_s=5000.0), resumable=False)


def paused(text: str, devices: int = 2, how: Pause = Pause.FROZEN) -> Story:
    """Job a was paused on device 0 by its user; b runs there, and the other devices are free."""
    story = Story(f"{text}+live?share=off", f"1x{devices}")
    specs = [rigid(name) for name in ("a", "b")]
    story.tell(0.0, Submitted(specs[0]))
    story.tell(0.0, JobStarted("a", 0, 0.0, 1.0, pauses=BOTH))
    where = story.scheduler.jobs["a"].allocation
    assert where is not None
    story.tell(10.0, JobHeld("a", "user", how))
    story.tell(11.0, JobPaused("a", 1, how))
    fillers = [rigid(f"f{n}") for n in range(devices)]
    story.tell(12.0, *map(Submitted, fillers))
    for name in [name for name, row in story.scheduler.jobs.items() if name.startswith("f")]:
        row = story.scheduler.jobs[name]
        story.tell(13.0, JobStarted(name, row.action, 0.0, 1.0, pauses=BOTH))
    return story


@pytest.mark.parametrize("text", POLICIES)
def test_a_paused_job_goes_on_where_it_is_and_nowhere_else(text: str) -> None:
    story = paused(text)
    own = story.scheduler.jobs["a"].allocation
    assert own is not None
    inside = {
        name
        for name, row in story.scheduler.jobs.items()
        if row.allocation and not row.allocation.paused and own.devices[0] in row.allocation.devices
    }
    (there,) = inside
    (elsewhere,) = {"f0", "f1"} - inside
    assert story.tell(20.0, JobReleased("a", "user")) == []
    gone = story.scheduler.jobs[elsewhere]
    assert story.tell(30.0, JobFinished(elsewhere, gone.action)) == []
    here = story.scheduler.jobs[there]
    story.tell(35.0, Submitted(rigid("late")))
    (order,) = story.tell(40.0, JobFinished(there, here.action))
    assert isinstance(order, Change)
    assert (order.job, order.allocation) == ("a", own.as_paused(None))


def test_a_paused_job_goes_on_before_others_of_its_level_start_there() -> None:
    story = paused("backfill", devices=1)
    story.tell(20.0, JobReleased("a", "user"), Submitted(job("c", length_s=1.0)))
    here = story.scheduler.jobs["f0"]
    assert [each.job for each in story.tell(30.0, JobFinished("f0", here.action))] == ["a"]


def test_a_job_of_higher_priority_goes_before_it() -> None:
    story = paused("backfill", devices=1)
    urgent = replace(rigid("c"), priority=5)
    story.tell(20.0, JobReleased("a", "user"), Submitted(urgent))
    here = story.scheduler.jobs["f0"]
    assert [each.job for each in story.tell(30.0, JobFinished("f0", here.action))] == ["c"]


@pytest.mark.parametrize(
    ("changed", "way"),
    [
        ({"resumable": True}, Stop),
        ({"guaranteed": False}, Change),
        ({}, None),
        ({"resumable": True, "preemptible": False}, None),
        ({"resumable": True, "priority": 5}, None),
    ],
)
@pytest.mark.parametrize("text", POLICIES)
def test_a_lower_job_makes_way_for_a_paused_one_that_goes_on(
    text: str, changed: dict[str, bool], way: type | None
) -> None:
    """1. a of priority 5 is paused on both devices. 2. Two others run there. 3. a is resumed."""
    story = Story(f"{text}+live?share=off", "1x2")
    both = replace(rigid("a"), sizes=(2,), asked=2, priority=5)
    story.tell(0.0, Submitted(both))
    story.tell(0.0, JobStarted("a", 0, 0.0, 1.0, pauses=BOTH))
    story.tell(10.0, JobHeld("a", "user", Pause.FROZEN))
    story.tell(11.0, JobPaused("a", 1, Pause.FROZEN))
    others = [replace(rigid("f0"), resumable=True), replace(rigid("f1"), **changed)]  # type: ignore[arg-type]
    story.tell(12.0, *map(Submitted, others))
    for name in ("f0", "f1"):
        row = story.scheduler.jobs[name]
        story.tell(13.0, JobStarted(name, row.action, 0.0, 1.0, pauses=BOTH))
    orders = story.tell(20.0, JobReleased("a", "user"))
    found = {each.job: type(each) for each in orders}
    assert found == ({} if way is None else {"f0": Stop, "f1": way, "a": Change})
    if way is not None:
        assert [
            set(each.after) for each in orders if isinstance(each, Change) and each.job == "a"
        ] == [{"f0", "f1"}]


def test_one_that_starts_there_makes_way_once_it_runs() -> None:
    story = paused("backfill", devices=1)
    story.scheduler.rows["a"] = story.scheduler.rows["a"]._replace(
        spec=replace(story.scheduler.rows["a"].spec, priority=5)
    )
    here = story.scheduler.jobs["f0"]
    story.tell(14.0, JobFinished("f0", here.action))
    (order,) = story.tell(15.0, Submitted(replace(rigid("b"), resumable=True)))
    assert story.tell(16.0, JobReleased("a", "user")) == []
    orders = story.tell(17.0, JobStarted("b", order.id, 0.0, 1.0))
    assert [each.job for each in orders] == ["b", "a"]


def test_one_that_could_not_go_on_is_tried_again_by_itself() -> None:
    story = paused("fifo", devices=1)
    here = story.scheduler.jobs["f0"]
    story.tell(20.0, JobReleased("a", "user"))
    (order,) = story.tell(30.0, JobFinished("f0", here.action))
    story.tell(31.0, JobPaused("a", order.id, Pause.FROZEN, refused="no room"))
    assert story.scheduler.jobs["a"].phase is Phase.PAUSED
    again_at = story.scheduler.wake_at
    assert 31.0 < again_at < 91.0
    assert [each.job for each in story.tell(again_at)] == ["a"]


@pytest.mark.parametrize(
    ("kept_gib", "needs_gib", "how", "starts"),
    [
        (40.0, 40.0, Pause.FROZEN, True),
        (41.0, 40.0, Pause.FROZEN, False),
        (41.0, 40.0, Pause.SUSPENDED, True),
        (39.0, 0.0, Pause.FROZEN, True),
        (50.0, 0.0, Pause.FROZEN, False),  # What it needs is not known.
    ],
)
def test_what_a_frozen_job_keeps_of_a_device_is_not_free(
    kept_gib: float, needs_gib: float, how: Pause, starts: bool
) -> None:
    cluster = Cluster((Node("n0", 1, device_memory_gib=80.0),))
    scheduler = Scheduler(policy("backfill+live"), cluster)
    specs = {
        name: replace(rigid(name), device_memory_gib=gib)
        for name, gib in (("a", kept_gib), ("b", needs_gib))
    }
    scheduler.step([Submitted(specs["a"])], 0.0)
    scheduler.step([JobStarted("a", 0, 0.0, 1.0, pauses=BOTH)], 0.0)
    scheduler.step([JobHeld("a", "user", how)], 1.0)
    scheduler.step([JobPaused("a", 1, how)], 2.0)
    orders = scheduler.step([Submitted(specs["b"])], 3.0)
    assert [each.job for each in orders] == (["b"] if starts else [])


def test_a_paused_job_keeps_its_host_memory_and_not_its_cores() -> None:
    cluster = Cluster((Node("n0", 2, cores=8, memory_gib=64.0),))
    scheduler = Scheduler(policy("backfill+live"), cluster)
    first = replace(rigid("a"), host_memory_gib=40.0, host_cores=8.0)
    scheduler.step([Submitted(first)], 0.0)
    scheduler.step([JobStarted("a", 0, 0.0, 1.0, pauses=BOTH)], 0.0)
    scheduler.step([JobHeld("a", "user", Pause.FROZEN)], 1.0)
    scheduler.step([JobPaused("a", 1, Pause.FROZEN)], 2.0)
    large = replace(rigid("b"), host_memory_gib=30.0, host_cores=1.0)
    small = replace(rigid("c"), host_memory_gib=20.0, host_cores=6.0)
    orders = scheduler.step([Submitted(large), Submitted(small)], 3.0)
    assert [each.job for each in orders if isinstance(each, Start)] == ["c"]
    scheduler.step([JobStarted("c", orders[0].id, 0.0, 1.0)], 3.0)
    assert scheduler.step([JobReleased("a", "user")], 4.0) == []  # Too few cores are left.
    orders = scheduler.step([JobFinished("c", orders[0].id)], 5.0)
    assert [each.job for each in orders] == ["a"]


def behind(text: str, job_before: JobSpec, pauses: tuple[Pause, ...] = BOTH) -> Story:
    """Job a runs on the only device; c of higher priority comes."""
    story = Story(text, "1x1")
    story.tell(0.0, Submitted(job_before))
    story.tell(0.0, JobStarted("a", 0, 0.0, 1.0, pauses=pauses))
    return story


@pytest.mark.parametrize("text", POLICIES)
def test_a_job_without_checkpoints_is_paused_for_one_of_higher_priority(text: str) -> None:
    """1. It makes way. 2. It goes on when the other has ended."""
    story = behind(f"{text}+live?share=off", replace(rigid("a"), guaranteed=False))
    own = story.scheduler.jobs["a"].allocation
    assert own is not None
    orders = story.tell(10.0, Submitted(replace(rigid("c"), priority=5)))
    assert orders == [
        Change(1, "a", own.as_paused(Pause.FROZEN), for_job="c"),
        Start(2, "c", own, ("a",)),
    ]
    story.tell(11.0, JobPaused("a", 1, Pause.FROZEN))
    story.tell(12.0, JobStarted("c", 2, 0.0, 1.0))
    (order,) = story.tell(20.0, JobFinished("c", 2))
    assert (order.job, order.id) == ("a", 3)
    story.tell(21.0, JobStarted("a", 3, 10.0, 1.0, pauses=BOTH))
    assert story.scheduler.jobs["a"].starts == 1


@pytest.mark.parametrize(("of_patience", "starts"), [(0.5, True), (1.1, False)])
def test_devices_are_kept_for_a_large_job_that_has_waited_for_long(
    of_patience: float, starts: bool
) -> None:
    """1. A job of two devices is paused; another runs on one of them. 2. A third one comes."""
    story = Story("backfill+live?share=off", "1x2")
    story.tell(0.0, Submitted(replace(rigid("a"), sizes=(2,), asked=2)))
    story.tell(0.0, JobStarted("a", 0, 0.0, 1.0, pauses=BOTH))
    story.tell(10.0, JobHeld("a", "user", Pause.FROZEN))
    story.tell(11.0, JobPaused("a", 1, Pause.FROZEN))
    (order,) = story.tell(12.0, Submitted(rigid("b")))
    story.tell(12.0, JobStarted("b", order.id, 0.0, 1.0))
    story.tell(20.0, JobReleased("a", "user"))
    patience_s = WAIT_S + LENGTHS * 5000.0 + AGAIN * 11.0
    orders = story.tell(20.0 + of_patience * patience_s, Submitted(rigid("c")))
    assert [each.job for each in orders] == (["c"] if starts else [])


@pytest.mark.parametrize(("large", "small"), [("a0", "a1"), ("a1", "a0")])
def test_of_several_the_smallest_is_paused(large: str, small: str) -> None:
    story = Story("backfill+live?share=off", "1x3")
    sizes = {large: 2, small: 1}
    for name in ("a0", "a1"):
        spec = replace(rigid(name), sizes=(sizes[name],), asked=sizes[name], guaranteed=False)
        (order,) = story.tell(0.0, Submitted(spec))
        story.tell(0.0, JobStarted(name, order.id, 0.0, 1.0, pauses=BOTH))
    orders = story.tell(10.0, Submitted(replace(rigid("c"), priority=5)))
    assert [each.job for each in orders] == [small, "c"]


@pytest.mark.parametrize(
    ("pause", "changed", "pauses", "makes_way"),
    [
        ("opportunistic", {"guaranteed": True}, BOTH, False),
        ("all", {"guaranteed": True}, BOTH, True),
        ("all", {"preemptible": False}, BOTH, False),
        ("off", {"guaranteed": False}, BOTH, False),
        ("opportunistic", {"guaranteed": False}, (), False),
    ],
)
def test_who_is_paused_for_whom(
    pause: str, changed: dict[str, bool], pauses: tuple[Pause, ...], makes_way: bool
) -> None:
    first = replace(rigid("a"), **changed)  # type: ignore[arg-type]
    story = behind(f"backfill+live?pause={pause}", first, pauses)
    orders = story.tell(10.0, Submitted(replace(rigid("c"), priority=5)))
    assert [each.job for each in orders] == (["a", "c"] if makes_way else [])
    assert story.tell(11.0, Submitted(rigid("d"))) == []  # None for its equals.


@pytest.mark.parametrize(
    ("keeps_gib", "needs_gib", "pauses", "how"),
    [
        (40.0, 40.0, BOTH, Pause.FROZEN),
        (40.0, 41.0, BOTH, Pause.SUSPENDED),
        (40.0, 41.0, (Pause.FROZEN,), None),
        (0.0, 40.0, BOTH, Pause.SUSPENDED),  # What it has there is not known.
        (30.0, 0.0, BOTH, Pause.FROZEN),
        (50.0, 0.0, BOTH, Pause.SUSPENDED),
    ],
)
def test_a_job_is_frozen_where_both_fit_else_suspended(
    keeps_gib: float, needs_gib: float, pauses: tuple[Pause, ...], how: Pause | None
) -> None:
    scheduler = Scheduler(policy("weave-l+live"), Cluster((Node("n0", 1, device_memory_gib=80.0),)))
    first = replace(rigid("a"), guaranteed=False, exclusive=True, device_memory_gib=keeps_gib)
    urgent = replace(rigid("c"), priority=5, exclusive=True, device_memory_gib=needs_gib)
    scheduler.step([Submitted(first)], 0.0)
    scheduler.step([JobStarted("a", 0, 0.0, 1.0, pauses=pauses)], 0.0)
    orders = scheduler.step([Submitted(urgent)], 10.0)
    found = [each.allocation.paused for each in orders if isinstance(each, Change)]
    assert found == ([] if how is None else [how])


def test_a_wrong_word_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        policy("fifo+live?pause=some")


def urgent_beside(length_s: float, how: tuple[Pause, ...] = BOTH) -> tuple[Story, list[Action]]:
    """A job that keeps checkpoints runs on the one device when an urgent one comes, at 10 s."""
    story = Story("backfill+live?restart_s=30", "1x1")
    story.tell(0.0, Submitted(job("a", length_s=5000.0)))
    story.tell(0.0, JobStarted("a", 0, 0.0, 1.0, pauses=how))
    return story, story.tell(10.0, Submitted(replace(job("b", length_s=length_s), priority=1)))


@pytest.mark.parametrize(
    ("length_s", "how", "freezes"),
    [(29.0, BOTH, True), (31.0, BOTH, False), (29.0, (), False), (29.0, BOTH[1:], False)],
)
def test_a_job_with_checkpoints_is_frozen_for_one_that_takes_less_than_its_restart(
    length_s: float, how: tuple[Pause, ...], *, freezes: bool
) -> None:
    _, (first, second) = urgent_beside(length_s, how)
    assert isinstance(first, Change if freezes else Stop)
    assert (first.job, second.job, type(second)) == ("a", "b", Start)


def frozen(length_s: float) -> Story:
    """The same once b runs there, which was expected to take so long."""
    story, (pause, start) = urgent_beside(length_s)
    story.tell(10.1, JobPaused("a", pause.id, Pause.FROZEN))
    story.tell(10.2, JobStarted("b", start.id, 0.0, 1.0))
    assert story.scheduler.jobs["a"].phase is Phase.PAUSED
    return story


def test_a_job_that_was_frozen_for_a_moment_goes_on() -> None:
    story = frozen(29.0)
    (order,) = story.tell(39.2, JobFinished("b", story.scheduler.jobs["b"].action))
    assert isinstance(order, Change)


def test_a_job_that_was_frozen_for_a_moment_is_stopped_once_that_has_passed_twice() -> None:
    story = frozen(29.0)
    assert story.scheduler.wake_at == 70.0
    assert story.tell(70.0) == []
    assert story.scheduler.wake_at == pytest.approx(70.1)
    (order,) = story.tell(70.2)
    assert (type(order), order.job) == (Stop, "a")


def test_nothing_starts_beside_it_that_would_keep_it_waiting() -> None:
    story = Story("backfill+live?restart_s=30&share=off", "1x2")
    story.tell(0.0, Submitted(replace(job("a", length_s=5000.0), sizes=(2,), asked=2)))
    story.tell(0.0, JobStarted("a", 0, 0.0, 1.0, pauses=BOTH))
    pause, start = story.tell(10.0, Submitted(replace(job("b", length_s=20.0), priority=1)))
    story.tell(10.1, JobPaused("a", pause.id, Pause.FROZEN))
    story.tell(10.2, JobStarted("b", start.id, 0.0, 1.0))
    assert story.tell(11.0, Submitted(job("long", length_s=300.0))) == []
    (order,) = story.tell(12.0, Submitted(job("short", length_s=15.0)))
    assert (type(order), order.job) == (Start, "short")

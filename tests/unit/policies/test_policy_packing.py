"""Packing of counts that tile nodes: one job across a node's edge at most, and few moves."""

from collections import Counter

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.stories import Story, Told
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import JobFinished, JobSubmitted
from treadle.core.ports import Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.sizes.ladders import is_legal, legal
from treadle.policies.base.packing import pack
from treadle.testing.builders import job


class Packed(Policy):
    """Every job at the size it asked for, packed; sizes are chosen to fit."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        sizes = {job.id: job.spec.asked for job in snapshot.jobs.values()}
        return Schedule.whole(snapshot, pack(snapshot, sizes))


@st.composite
def tilings(draw: st.DrawFn) -> tuple[int, int, list[int]]:
    """A number of nodes, their devices, and legal counts that fit."""
    nodes, node = draw(st.integers(1, 5)), draw(st.integers(1, 8))
    left, counts = nodes * node, []
    while choice := [c for c in range(1, left + 1) if is_legal(c, node)]:
        counts.append(draw(st.sampled_from(choice)))
        left -= counts[-1]
        if draw(st.integers(0, 7)) == 0:
            break
    return nodes, node, draw(st.permutations(counts))


def crossing(story: Story) -> Counter[str]:
    """How many jobs cross the edge of each node."""
    jobs = story.scheduler.jobs.values()
    held = [row.allocation.nodes() for row in jobs if row.allocation is not None]
    return Counter(node for nodes in held if len(nodes) > 1 for node in nodes)


def where(story: Story) -> dict[str, Allocation | None]:
    return {row.id: row.allocation for row in story.scheduler.jobs.values()}


@given(tilings())
def test_legal_counts_that_fit_are_all_placed_and_no_node_has_two_that_cross_it(
    tiling: tuple[int, int, list[int]],
) -> None:
    nodes, node, counts = tiling
    story = Story(Packed(), f"{nodes}x{node}")
    story.tell(0.0, *(JobSubmitted(job(f"j{n}", size=c)) for n, c in enumerate(counts)))
    assert all(where(story).values())
    assert max(crossing(story).values(), default=0) <= 1


@given(tilings(), st.data())
def test_jobs_that_come_and_go_find_room_and_no_node_has_two_that_cross_it(
    tiling: tuple[int, int, list[int]], data: st.DataObject
) -> None:
    """They come one by one, and after each of them another may end."""
    nodes, node, counts = tiling
    story = Story(Packed(), f"{nodes}x{node}")
    for number, count in enumerate(counts):
        story.tell(float(number), JobSubmitted(job(f"j{number}", size=count)))
        story.runs(float(number), *where(story))
        held = sorted(where(story))
        if data.draw(st.booleans()):
            gone = story.scheduler.jobs[data.draw(st.sampled_from(held))]
            before = where(story)
            story.tell(float(number), JobFinished(gone.id, gone.action))
            assert where(story).items() <= before.items(), "no job moves because another left"
        assert all(where(story).values())
        assert max(crossing(story).values(), default=0) <= 1


@given(tilings())
def test_no_job_moves_for_a_job_that_fits_beside_the_others(
    tiling: tuple[int, int, list[int]],
) -> None:
    """The last job's count is free on one node, or as whole nodes."""
    nodes, node, counts = tiling
    story = Story(Packed(), f"{nodes}x{node}")
    *first, last = counts
    story.tell(0.0, *(JobSubmitted(job(f"j{n}", size=c)) for n, c in enumerate(first)))
    free = story.scheduler.tenancy.free
    room = free.tightest(last) is not None if last < node else len(free.whole(node)) * node >= last
    assume(room)
    before = where(story)
    story.tell(1.0, JobSubmitted(job("last", size=last)))
    assert before.items() <= where(story).items()


def test_what_another_policy_left_scattered_is_put_together() -> None:
    """Two jobs of four lie across the same two nodes of four."""
    scattered = {
        name: Allocation(tuple(Device(node, n) for node in ("n0", "n1") for n in numbers))
        for name, numbers in {"a": (0, 1), "b": (2, 3)}.items()
    }
    story = Story(Told(Schedule(scattered)), "2x4")
    story.tell(0.0, *(JobSubmitted(job(name, size=4)) for name in "ab"))
    assert crossing(story) == {"n0": 2, "n1": 2}
    packed = pack(story.scheduler.snapshot(1.0), {"a": 4, "b": 4})
    assert [allocation.nodes() for allocation in packed.values()] == [("n0",), ("n1",)]


def test_a_job_none_of_whose_sizes_tiles_a_node_keeps_them_all() -> None:
    assert legal((3, 5), 4) == (3, 5)
    assert legal((1, 2, 3, 4, 6, 8), 4) == (1, 2, 4, 8)

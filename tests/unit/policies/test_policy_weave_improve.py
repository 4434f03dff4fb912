"""Small changes to a layout of weave: no job is lost, and no device is given twice."""

from collections.abc import Sequence
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.policies.weave_world import COMPUTES, LOADS, waiting
from treadle.core.job import JobSpec
from treadle.models.scaling import ScalingModel
from treadle.models.sizes.work import Curve
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies.weave.candidate import Candidate, Sized
from treadle.policies.weave.improve import Search
from treadle.policies.weave.sharing import Group, SharedSpeeds
from treadle.policies.weave.values import Values

LEAST = 1.05


class Drawing(Candidate):
    """A job as these tests draw it, that scales as the root of its size."""

    def __init__(
        self, number: int, sizes: Sequence[int], worth: float, *, loads: bool, cost: float = 0.0
    ) -> None:
        """cost: of a move from a place of its own, as a share of its value."""
        spec = JobSpec(f"j{number}", 1.0, tuple(sizes), profile=LOADS if loads else COMPUTES)
        rates = {size: size**0.5 for size in sizes}
        curve = Curve((), rates, tuple(sizes), 1.0)
        super().__init__(waiting(spec), curve, worth, 8 ** int(loads), 1 << number)
        self.cost = cost
        self.is_owed = False

    def _made(self, size: int) -> Sized | None:
        if size not in self.curve.rates:
            return None
        value = self.worth * self.curve.rates[size]
        home = f"home of {self.job.id}" if self.cost else None
        return Sized(self, self.kind, value, home, self.cost * value)

    def costs_to_stop(self) -> float:
        return inf if self.is_owed else 0.0


class Table:
    """Jobs, and what is known of them together."""

    def __init__(self, jobs: Sequence[Drawing]) -> None:
        self.jobs = jobs
        belief = TokenModel(ScalingModel(), StageTimes())
        self.shared = SharedSpeeds(belief, largest=4, least=LEAST)
        self.values = Values(self.shared, jobs)

    def alone(self, number: int, size: int) -> Group:
        return self.shared.alone(self.jobs[number], size)

    def together(self, numbers: Sequence[int], size: int, value: float) -> Group:
        members = tuple(self.jobs[number] for number in numbers)
        mask = sum(one.bit for one in members)
        return Group(members, mask, size, sum(one.kind for one in members), value, None, 0.0)

    def search(self, groups: Sequence[Group], waiting: Sequence[int], free: int) -> Search:
        return Search(self.shared, self.values, groups, [self.jobs[n] for n in waiting], free)


def run(search: Search, groups: Sequence[Group], table: Table) -> bool:
    """Everything is new."""
    return search.run(groups, (), table.jobs)


def names(group: Group) -> list[str]:
    return [one.job.id for one in group.members]


Drawn = tuple[Sequence[int], float, bool, bool]
drawn = st.tuples(
    st.sampled_from([(1,), (2,), (1, 2), (1, 2, 4)]),
    st.floats(0.1, 10.0),
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(drawn, min_size=1, max_size=9), supply=st.integers(1, 8))
def test_no_job_is_lost_and_no_device_is_given_twice(rows: list[Drawn], supply: int) -> None:
    """Jobs begin alone, at their least, while there is room; the others wait."""
    jobs = [
        Drawing(number, sizes, worth, loads=loads)
        for number, (sizes, worth, loads, _) in enumerate(rows)
    ]
    table, free, groups = Table(jobs), supply, list[Group]()
    waits: list[int] = []
    for number, (job, row) in enumerate(zip(jobs, rows, strict=True)):
        if job.sizes[0] <= free:
            job.is_owed = row[3]
            groups.append(table.alone(number, job.sizes[0]))
            free -= job.sizes[0]
        else:
            waits.append(number)
    search = table.search(groups, waits, free)
    run(search, groups, table)
    found = search.groups()
    served = [one for group in found for one in group.members]
    assert len(set(served)) == len(served)
    assert sum(group.size for group in found) <= supply
    assert all(group.size in one.sizes for group in found for one in group.members)
    assert {job for job in jobs if job.is_owed} <= set(served)
    assert len(served) >= len(groups)
    began, ended = (sum(group.value for group in some) for some in (groups, found))
    assert ended >= began * (1.0 - 1e-9)


def test_a_waiting_job_takes_the_place_of_one_that_is_worth_less() -> None:
    table = Table([Drawing(0, (1,), 1.0, loads=False), Drawing(1, (1,), 5.0, loads=False)])
    groups = [table.alone(0, 1)]
    search = table.search(groups, [1], free=0)
    assert run(search, groups, table)
    assert [names(group) for group in search.groups()] == [["j1"]]


@pytest.mark.parametrize(("fresh", "softer", "new"), [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_only_what_is_new_is_weighed(fresh: int, softer: int, new: int) -> None:
    """A waiting job that would gain by it takes a place if the group or the job itself is new."""
    table = Table([Drawing(0, (1,), 1.0, loads=False), Drawing(1, (1,), 5.0, loads=False)])
    groups, came = [table.alone(0, 1)], [table.jobs[1]]
    assert not table.search(groups, [1], free=0).run((), (), ())
    search = table.search(groups, [1], free=0)
    assert search.run(groups[:fresh], groups[:softer], came[:new])


def test_a_job_that_is_owed_its_devices_keeps_them() -> None:
    table = Table([Drawing(0, (1,), 1.0, loads=False), Drawing(1, (1,), 5.0, loads=False)])
    table.jobs[0].is_owed = True
    groups = [table.alone(0, 1)]
    assert not run(table.search(groups, [1], free=0), groups, table)


def test_partners_are_exchanged_for_better_ones() -> None:
    """Two pairs of jobs with the same bottleneck become two pairs that share well."""
    table = Table([Drawing(n, (1,), 1.0, loads=n < 2) for n in range(4)])
    alike = [table.together(members, 1, 1.0) for members in ((0, 1), (2, 3))]
    search = table.search(alike, [], free=0)
    assert run(search, alike, table)
    pairs = [set(names(group)) for group in search.groups()]
    assert all(len(pair & {"j0", "j1"}) == 1 for pair in pairs)


def test_free_devices_go_to_the_group_that_gains_most() -> None:
    table = Table([Drawing(0, (1, 2), 1.0, loads=False), Drawing(1, (1, 2), 3.0, loads=False)])
    groups = [table.alone(0, 1), table.alone(1, 1)]
    search = table.search(groups, [], free=1)
    assert run(search, groups, table)
    assert {tuple(names(group)): group.size for group in search.groups()} == {
        ("j0",): 1,
        ("j1",): 2,
    }


class Asked(Values):
    """Values that count how often they are asked for."""

    asked = 0

    def of(self, size: int, mask: int) -> float:
        self.asked += 1
        return super().of(size, mask)


def test_twice_the_groups_and_free_devices_take_twice_as_long_to_grow() -> None:
    def asked(count: int) -> int:
        table = Table([Drawing(n, (1, 2, 4, 8), 1.0 + n / 1e3, loads=False) for n in range(count)])
        table.values = values = Asked(table.shared, table.jobs)
        groups = [table.alone(n, 1) for n in range(count)]
        search = table.search(groups, [], 3 * count)
        search.grow()
        assert sum(group.size for group in search.groups()) == 4 * count
        return values.asked

    assert asked(200) < 2.2 * asked(100)


def test_many_jobs_of_a_kind_are_not_all_weighed() -> None:
    """A job that comes is weighed against few of many groups that are alike."""

    def asked(count: int) -> int:
        worths = [*(1.0 + n / 1e3 for n in range(count)), 0.001]
        table = Table([Drawing(n, (1,), own, loads=False) for n, own in enumerate(worths)])
        table.values = values = Asked(table.shared, table.jobs)
        groups = [table.alone(n, 1) for n in range(count)]
        search = table.search(groups, [count], 0)
        before = values.asked
        assert not search.run((), (), [table.jobs[count]])
        return values.asked - before

    assert asked(200) == asked(100)


growing = st.tuples(st.sampled_from([(1,), (1, 2), (1, 2, 4), (1, 2, 3, 5, 8)]), st.integers(1, 4))


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(growing, min_size=1, max_size=6), free=st.integers(0, 20))
def test_each_free_device_goes_where_it_brings_most(
    rows: list[tuple[Sequence[int], int]], free: int
) -> None:
    table = Table(
        [Drawing(n, sizes, float(worth), loads=False) for n, (sizes, worth) in enumerate(rows)]
    )
    search = table.search([table.alone(n, 1) for n in range(len(rows))], [], free)
    search.grow()
    have, left = [1] * len(rows), free
    while True:
        steps = [
            (worth * (size**0.5 - have[n] ** 0.5) / (size - have[n]), -n, size)
            for n, (sizes, worth) in enumerate(rows)
            for size in sizes
            if have[n] < size <= have[n] + left
        ]
        if not steps:
            break
        _, place, size = max(steps)
        left -= size - have[-place]
        have[-place] = size
    assert [group.size for group in search.groups()] == have


def test_jobs_whose_moves_cost_more_than_they_do_are_not_lost() -> None:
    """Four jobs that are about to end were put on one device; a gang has all others."""
    jobs = [Drawing(n, (1,), 1.0, loads=n % 2 == 0, cost=1.0) for n in range(4)]
    table = Table([*jobs, Drawing(4, (4,), 50.0, loads=False)])
    groups = [table.together(range(4), 1, 1.0), table.alone(4, 4)]
    search = table.search(groups, [], free=0)
    run(search, groups, table)
    served = sorted(name for group in search.groups() for name in names(group))
    assert served == ["j0", "j1", "j2", "j3", "j4"]


def test_a_group_shrinks_and_a_waiting_job_takes_what_it_frees() -> None:
    """Two jobs share all devices; a short one, with which neither shares well, would wait."""
    jobs = [Drawing(0, (2, 4), 1.0, loads=True), Drawing(1, (2, 4), 1.0, loads=False)]
    table = Table([*jobs, Drawing(2, (1, 2), 3.0, loads=False)])
    pair = [one.at(4) for one in jobs]
    both = table.shared.together([one for one in pair if one is not None], 4)
    assert both is not None
    search = table.search([both], [2], free=0)
    assert run(search, [both], table)
    found = sorted((names(group), group.size) for group in search.groups())
    assert found == [(["j0", "j1"], 2), (["j2"], 2)]

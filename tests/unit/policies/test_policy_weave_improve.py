"""Small changes to a plan of weave: no job is lost, and no device is given twice."""

from collections.abc import Sequence
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.core.job import JobSpec, Profile
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies.weave.company import Company, Group, Member
from treadle.policies.weave.improve import Search
from treadle.policies.weave.values import Values

LOADS = Profile(load_s=0.8, compute_s=0.2)
COMPUTES = Profile(load_s=0.001, compute_s=0.999)
LEAST = 1.05


class Row:
    """A job as these tests draw it: its sizes, what it is worth, and where it runs now."""

    def __init__(
        self, number: int, sizes: Sequence[int], worth: float, *, loads: bool, cost: float = 0.0
    ) -> None:
        profile = LOADS if loads else COMPUTES
        self.spec = JobSpec(f"j{number}", 1.0, tuple(sizes), profile=profile)
        self.worth = worth
        self.cost = cost  # of a move from a place of its own, as a share of its value
        self.is_owed = False


class Table:
    """Jobs that scale as the root of their size."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        belief = TokenModel(ScalingModel(), StageTimes())
        self.company = Company(belief, largest=4, least=LEAST)

    def sizes(self, job: int) -> Sequence[int]:
        return self.rows[job].spec.sizes

    def member(self, job: int, size: int) -> Member | None:
        row = self.rows[job]
        if size not in row.spec.sizes:
            return None
        value = row.worth * size**0.5
        home = f"home of {job}" if row.cost else None
        return Member(row.spec, self.company.kind(row.spec), value, home, row.cost * value)

    def stop_cost(self, job: int) -> float:
        return inf if self.rows[job].is_owed else 0.0

    def alone(self, job: int, size: int) -> tuple[int, Group]:
        member = self.member(job, size)
        assert member is not None
        return size, self.company.alone(job, member)


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
        Row(number, sizes, worth, loads=loads)
        for number, (sizes, worth, loads, _) in enumerate(rows)
    ]
    table, free, groups = Table(jobs), supply, []
    waiting: list[int] = []
    for number, (job, row) in enumerate(zip(jobs, rows, strict=True)):
        if job.spec.sizes[0] <= free:
            job.is_owed = row[3]
            groups.append(table.alone(number, job.spec.sizes[0]))
            free -= job.spec.sizes[0]
        else:
            waiting.append(number)
    search = Search(table.company, table, groups, waiting, free)
    search.run()
    found = list(search.groups())
    served = [i for _, group in found for i in group.members]
    assert len(set(served)) == len(served)
    assert sum(size for size, _ in found) <= supply
    assert all(size in jobs[i].spec.sizes for size, group in found for i in group.members)
    assert {number for number, job in enumerate(jobs) if job.is_owed} <= set(served)
    assert len(served) >= len(groups)
    began, ended = (sum(group.value for _, group in some) for some in (groups, found))
    assert ended >= began * (1.0 - 1e-9)


def test_a_waiting_job_takes_the_place_of_one_that_is_worth_less() -> None:
    table = Table([Row(0, (1,), 1.0, loads=False), Row(1, (1,), 5.0, loads=False)])
    search = Search(table.company, table, [table.alone(0, 1)], [1], free=0)
    assert search.run()
    assert [group.members for _, group in search.groups()] == [(1,)]


def test_a_job_that_is_owed_its_devices_keeps_them() -> None:
    table = Table([Row(0, (1,), 1.0, loads=False), Row(1, (1,), 5.0, loads=False)])
    table.rows[0].is_owed = True
    search = Search(table.company, table, [table.alone(0, 1)], [1], free=0)
    assert not search.run()


def test_partners_are_exchanged_for_better_ones() -> None:
    """Two pairs of jobs with the same bottleneck become two pairs that share well."""
    table = Table([Row(n, (1,), 1.0, loads=n < 2) for n in range(4)])
    alike = []
    for members in ((0, 1), (2, 3)):
        ones = [table.alone(n, 1)[1] for n in members]
        kinds = tuple(one.kinds[0] for one in ones)
        alike.append((1, Group(members, kinds, 1.0, None, 0.0)))
    search = Search(table.company, table, alike, [], free=0)
    assert search.run()
    pairs = [set(group.members) for _, group in search.groups()]
    assert all(len(pair & {0, 1}) == 1 for pair in pairs)


def test_free_devices_go_to_the_group_that_gains_most() -> None:
    table = Table([Row(0, (1, 2), 1.0, loads=False), Row(1, (1, 2), 3.0, loads=False)])
    search = Search(table.company, table, [table.alone(0, 1), table.alone(1, 1)], [], free=1)
    assert search.run()
    assert {group.members: size for size, group in search.groups()} == {(0,): 1, (1,): 2}


class Asked(Values):
    """Values that count how often they are asked for."""

    asked = 0

    def of(self, size: int, mask: int) -> float:
        self.asked += 1
        return super().of(size, mask)


def test_twice_the_groups_and_free_devices_take_twice_as_long_to_grow() -> None:
    def asked(count: int) -> int:
        table = Table([Row(n, (1, 2, 4, 8), 1.0 + n / 1000, loads=False) for n in range(count)])
        values = Asked(table.company, table)
        groups = [table.alone(n, 1) for n in range(count)]
        search = Search(table.company, table, groups, [], 3 * count, values)
        assert search.grow()
        assert sum(size for size, _ in search.groups()) == 4 * count
        return values.asked

    assert asked(200) < 2.2 * asked(100)


growing = st.tuples(st.sampled_from([(1,), (1, 2), (1, 2, 4), (1, 2, 3, 5, 8)]), st.integers(1, 4))


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(growing, min_size=1, max_size=6), free=st.integers(0, 20))
def test_each_free_device_goes_where_it_brings_most(
    rows: list[tuple[Sequence[int], int]], free: int
) -> None:
    table = Table(
        [Row(n, sizes, float(worth), loads=False) for n, (sizes, worth) in enumerate(rows)]
    )
    search = Search(table.company, table, [table.alone(n, 1) for n in range(len(rows))], [], free)
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
    assert [size for size, _ in search.groups()] == have


def test_jobs_whose_moves_cost_more_than_they_get_done_are_not_lost() -> None:
    """Four jobs that are about to end were put on one device; a gang has all others."""
    jobs = [Row(n, (1,), 1.0, loads=n % 2 == 0, cost=1.0) for n in range(4)]
    table = Table([*jobs, Row(4, (4,), 50.0, loads=False)])
    ones = [table.alone(n, 1)[1] for n in range(4)]
    four = Group((0, 1, 2, 3), tuple(sorted(one.kinds[0] for one in ones)), 1.0, None, 0.0)
    search = Search(table.company, table, [(1, four), table.alone(4, 4)], [], free=0)
    search.run()
    served = sorted(i for _, group in search.groups() for i in group.members)
    assert served == [0, 1, 2, 3, 4]


def test_a_group_shrinks_and_a_waiting_job_takes_what_it_frees() -> None:
    """Two jobs share all devices; a short one, with which neither shares well, would wait."""
    jobs = [Row(0, (2, 4), 1.0, loads=True), Row(1, (2, 4), 1.0, loads=False)]
    table = Table([*jobs, Row(2, (1, 2), 3.0, loads=False)])
    pair = [table.member(n, 4) for n in (0, 1)]
    both = table.company.together((0, 1), dict(enumerate(pair)))
    assert both is not None
    search = Search(table.company, table, [(4, both)], [2], free=0)
    assert search.run()
    assert sorted((group.members, size) for size, group in search.groups()) == [
        ((0, 1), 2),
        ((2,), 2),
    ]

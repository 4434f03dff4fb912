"""Waiting jobs by kind: always what a look at the whole queue would give."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import Job, JobId
from treadle.core.lifecycle import Phase
from treadle.core.ranking import Rank, Ranking
from treadle.core.waiting_by_kind import Waiting
from treadle.testing.builders import job

STEPS = st.lists(
    st.tuples(st.sampled_from(["waits", "runs", "ends", "look", "other basis"]), st.integers(0, 7)),
    max_size=40,
)


def by_kind(waiting: Waiting) -> tuple[int, Waiting]:
    return int(waiting[2]) % 3, waiting


@given(STEPS)
def test_lines_follow_the_queue_whatever_becomes_of_its_jobs(steps: list[tuple[str, int]]) -> None:
    ranking, basis = Ranking(lambda row, _: Rank(row.sequence % 2)), object()
    for now, (what, number) in enumerate(steps):
        spec = job(str(number))
        if what == "waits":
            ranking.put(Job(spec, number, Phase.WAITING, 0.0, 0.0), now)
        elif what == "runs":
            held = Allocation((Device("n", number),))
            ranking.put(Job(spec, number, Phase.RUNNING, 0.0, 0.0, held), now)
        elif what == "ends":
            ranking.drop(spec.id)
        else:
            basis = basis if what == "look" else object()
            lines = ranking.by_kind(by_kind, basis)
            expected: dict[int, list[tuple[Waiting, JobId]]] = {}
            for waiting in ranking.queue:
                expected.setdefault(int(waiting[2]) % 3, []).append((waiting, waiting[2]))
            assert lines == expected


def test_a_job_is_classified_once_while_the_basis_is_the_same() -> None:
    ranking, basis, asked = Ranking(lambda _row, _now: Rank(0.0)), object(), list[JobId]()

    def noted(waiting: Waiting) -> tuple[str, int]:
        asked.append(waiting[2])
        return "all", waiting[1]

    ranking.put(Job(job("a"), 0, Phase.WAITING, 0.0, 0.0), 0.0)
    ranking.by_kind(noted, basis)
    ranking.put(Job(job("b"), 1, Phase.WAITING, 0.0, 0.0), 1.0)
    ranking.by_kind(noted, basis)
    assert asked == ["a", "b"]
    ranking.by_kind(noted, object())
    assert asked == ["a", "b", "a", "b"]

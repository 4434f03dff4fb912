"""The walk over kinds gives the jobs that a look at every job would give, in the same order."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.core.job import JobId
from treadle.policies.base.in_turn import InTurn

# Of each job its kind, and whether it finds room at its turn.
QUEUES = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=24)


@given(QUEUES, st.lists(st.integers(0, 1), min_size=4, max_size=4))
def test_kinds_in_vain_are_passed_over_until_a_job_finds_room(
    queue: list[tuple[int, bool]], weights: list[int]
) -> None:
    jobs = [(JobId(str(place)), *entry) for place, entry in enumerate(queue)]
    tried, vain = [], set[int]()
    for job, kind, fits in sorted(jobs, key=lambda entry: weights[entry[1]]):
        if kind not in vain:
            tried.append(job)
            vain = set() if fits else vain | {kind}

    now_in_vain = set[int]()
    turns = InTurn[int](now_in_vain)
    for kind in {kind for _, kind, _ in jobs}:
        line = [(place, job) for place, (job, own, _) in enumerate(jobs) if own == kind]
        turns.add((weights[kind],), line, kind)
    fits_at = {job: fits for job, _, fits in jobs}
    walked = []
    for job, kind in turns:
        walked.append(job)
        if fits_at[job]:
            now_in_vain.clear()
            turns.recall()
        else:
            now_in_vain.add(kind)

    assert walked == tried


def test_a_kind_that_is_done_has_no_more_turns() -> None:
    turns = InTurn[str](())
    turns.add((), [(0, JobId("a")), (2, JobId("c"))], "odd")
    turns.add((), [(1, JobId("b")), (3, JobId("d"))], "even")
    walked = []
    for job, kind in turns:
        walked.append(job)
        if job == "a":
            turns.done.add(kind)

    assert walked == ["a", "b", "d"]

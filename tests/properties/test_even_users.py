"""What newcomers are told is the same whether it is made anew or follows what changed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.models.learning.even_users import EVEN_POINTS, TAIL_DOUBT, EvenUsers
from treadle.models.learning.kind_history import HALF_LIVES, History
from treadle.models.learning.outcome import Outcome
from treadle.models.lengths.distribution import Lengths, mixture

RUNS = st.tuples(
    st.integers(0, 11),
    st.one_of(st.sampled_from((1.0, 2.0, 60.0)), st.floats(0.01, 1e7)),
    st.booleans(),
)


def anew(users: dict[str, History], at: int) -> Lengths:
    found = [user.histograms[at].lengths(TAIL_DOUBT) for user in users.values()]
    parts = [(lengths, 1.0) for lengths in found if lengths is not None]
    return parts[0][0] if len(parts) == 1 else mixture(parts).thinned(EVEN_POINTS)


@settings(deadline=None, max_examples=40)
@given(runs=st.lists(RUNS, min_size=1, max_size=60), gone=st.integers(0, 3))
def test_following_each_change_gives_what_making_it_anew_gives(
    runs: list[tuple[int, float, bool]], gone: int
) -> None:
    """1. Jobs of twelve users end, one by one. 2. Each time the forecasts are asked for. 3. In the
    end some users are forgotten."""
    even = EvenUsers()
    users: dict[str, History] = {}
    for turn, (user, seconds, cut_off) in enumerate(runs):
        name = f"user{user}/"
        history = users.setdefault(name, History())
        history.add_far(Outcome(1, seconds, whole=not cut_off, cut_off=cut_off), name)
        even.forget(name)
        known = {each: users[each] for each in sorted(users) if users[each].ended}
        if turn == len(runs) - 1:
            known = dict(list(known.items())[gone:])
        seen = {each: user.evidence() for each, user in known.items()}
        experts = even.experts("all", seen) if seen else []
        for at, expert in enumerate(experts):
            assert expert.label == f"all {HALF_LIVES[at]:g}"
            wanted, found = anew(known, at), expert.forecast.seen
            assert len(wanted.points) == len(found.points)
            for (one_s, one), (other_s, other) in zip(wanted.points, found.points, strict=True):
                assert abs(one_s / other_s - 1.0) < 1e-9
                assert abs(one - other) < 1e-9
            assert abs(wanted.tail - found.tail) < 1e-9
            assert wanted.longest_s == found.longest_s

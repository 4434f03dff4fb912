"""The configuration file: what it says, and which line is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.errors import InvalidInputError
from treadle.policies.live.fair import Fairness
from treadle.policies.live.limits import Limits
from treadle.wire.lab import Lab, longest_s
from treadle.wire.quotas import quotas

NAMES = st.from_regex(r"[a-z][a-z0-9@._-]{0,8}", fullmatch=True)
COUNTS = st.none() | st.integers(0, 50)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("limits:\n  runing: 8", 2),
        ("limits: 8", 1),
        ("fair: 1d\nlimits: {running: x}", 2),
        ("limits: {running: -1}", 1),
        ("users:\n  ann: {limits: {time_limit: never}}", 2),
        ("users:\n  - ann", 2),
        ('users:\n  "a b": {}', 2),
        ("tenants: {v: {members: ann}}", 1),
        ("tenants: {v: {members: [a, {b: c}]}}", 1),
        ("policy: [a]", 1),
        ("users:\n  ann:\n    weight: 0", 3),
        ("a", 1),
    ],
)
def test_the_line_that_is_wrong_is_named(text: str, line: int) -> None:
    with pytest.raises(InvalidInputError) as error:
        Lab.of(text, "lab.yaml")
    assert f"lab.yaml line {line}: " in str(error.value)


@given(
    users=st.dictionaries(NAMES, st.tuples(st.floats(0.1, 9.0), COUNTS, COUNTS), max_size=3),
    tenants=st.dictionaries(NAMES, st.tuples(COUNTS, COUNTS), max_size=3),
    general=st.tuples(COUNTS, COUNTS),
)
def test_the_live_decision_reads_what_it_says(
    users: dict[str, tuple[float, int | None, int | None]],
    tenants: dict[str, tuple[int | None, int | None]],
    general: tuple[int | None, int | None],
) -> None:
    def limits(devices: int | None, running: int | None) -> str:
        said = {"devices": devices, "running": running}
        return "{" + ", ".join(f"{k}: {v}" for k, v in said.items() if v is not None) + "}"

    text = [f"limits: {limits(*general)}", "users:"]
    text += [
        f'  "{u}": {{weight: {w:.2f}, limits: {limits(d, r)}}}' for u, (w, d, r) in users.items()
    ]
    text += ["tenants:"]
    text += [
        f'  "{t}": {{quota: {q if q is not None else "~"}, limits: {limits(d, None)}}}'
        for t, (q, d) in tenants.items()
        if q is not None
    ]
    lab = Lab.of("\n".join(text))
    settings = lab.settings()
    Fairness(settings.get("fair", "1d"))
    found = Limits(settings.get("limits", ""))
    assert bool(found) == bool(settings.get("limits"))
    named = {t: q for t, (q, _) in tenants.items() if q is not None}
    assert (quotas("live", settings.get("quotas", "")) or {}) == named
    for user in ("nobody-else", *users):
        _, devices, running = users.get(user, (1.0, None, None))
        most = [each for each in found._by_who if each in (user, "*")]
        wanted = (
            devices if devices is not None else general[0],
            running if running is not None else general[1],
        )
        limit = found._by_who.get(user) or found._by_who.get("*")
        if limit is None:
            assert wanted == (None, None), most
        else:
            inf = float("inf")
            assert limit[1:] == tuple(inf if n is None else n for n in wanted)


def test_the_shortest_of_several_limits_counts() -> None:
    lab = Lab.of("limits: {time_limit: 2d}\ntenants: {v: {limits: {time_limit: 1d}}}")
    assert longest_s(lab.limits_of("ann", "v")) == (86_400.0, "tenant v")
    assert longest_s(lab.limits_of("ann", "")) == (2 * 86_400.0, "ann")

"""A line of the journal and the value it was written from."""

import json
from contextlib import suppress
from math import inf
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core import actions, events
from treadle.core.allocation import Allocation, Host
from treadle.core.cluster import Device, Node
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import Plan
from treadle.journal.codec import Line, decided, decode, encode

numbers = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=1e-6, max_value=1e12)
names = st.text(min_size=1, max_size=8)
ids = st.integers(0, 2**53)
plans = st.builds(
    Plan,
    tensor=st.just(1),
    data=st.none(),
    shard=st.sampled_from(["none", "optimizer", "gradients", "all"]),
    offload=st.booleans(),
    recompute=st.booleans(),
    accumulate=st.integers(1, 8),
)
hosts = st.none() | st.builds(Host, cores=numbers, memory_gib=numbers)
devices = st.lists(
    st.builds(Device, names, st.integers(0, 1023)), min_size=1, max_size=5, unique=True
)
allocations = st.builds(
    Allocation, devices=devices.map(tuple), plan=plans, turn=st.integers(0, 7), host=hosts
)
specs = st.builds(
    JobSpec,
    id=names,
    iterations=positive,
    sizes=st.sets(st.integers(1, 64), min_size=1, max_size=4).map(lambda s: tuple(sorted(s))),
    profile=st.builds(
        Profile, load_s=positive, compute_s=positive, size=st.integers(1, 64), model=names
    ),
    plans=st.lists(plans, min_size=1, max_size=2).map(tuple),
    submit_at=numbers,
    owner=names,
    tenant=names,
    guaranteed=st.booleans(),
    priority=st.integers(-5, 5),
    deadline_at=st.none() | numbers,
    retries=st.integers(0, 9),
    command=st.lists(names, max_size=3).map(tuple),
)
nodes = st.builds(
    Node,
    name=names,
    device_count=st.integers(1, 1024),
    device_type=names,
    cores=st.integers(0, 256),
    memory_gib=numbers,
    rack=names,
)
after = st.lists(names, max_size=3).map(tuple)
lines: st.SearchStrategy[Line] = st.one_of(
    st.builds(events.JobSubmitted, specs),
    st.builds(events.JobCancelled, names),
    st.builds(events.JobsLearned, after, numbers, specs.map(lambda spec: spec.profile)),
    st.builds(events.JobStarted, names, ids, numbers, numbers),
    st.builds(events.JobProgressed, names, ids, numbers, numbers),
    st.builds(events.TrainingEnded, names, ids),
    st.builds(events.RankReplaced, names, ids, ids, ids, ids),
    st.builds(events.JobStopped, names, ids, numbers),
    st.builds(events.JobFinished, names, ids),
    st.builds(events.JobFailed, names, ids, numbers, st.text()),
    st.builds(events.NodeJoined, nodes),
    st.builds(events.NodeLost, names),
    st.builds(events.NodeDrained, names),
    st.builds(actions.Start, ids, names, allocations, after),
    st.builds(actions.Change, ids, names, allocations, after),
    st.builds(actions.Stop, ids, names),
    st.builds(decided, numbers | st.just(inf)),
)


@given(at=numbers, line=lines)
def test_every_event_and_action_comes_back_as_it_was(at: float, line: Line) -> None:
    text = encode(at, line)
    assert b"\n" not in text
    assert decode(text) == (at, line)


def test_every_event_and_action_of_the_core_can_be_written() -> None:
    for kind in (*get_args(events.Event), *get_args(actions.Action)):
        with pytest.raises(InvalidInputError) as refusal:
            decode(json.dumps({"at": 0, "kind": kind.__name__}).encode())
        assert "missing required field" in str(refusal.value), kind


def test_never_is_written_as_null() -> None:
    assert encode(2.0, decided(inf)) == b'{"at":2.0,"kind":"Decided","wake_at":null,"held_back":[]}'
    assert decode(encode(2.0, decided(inf)))[1].moment == inf  # type: ignore[union-attr]
    assert decided(7.0).moment == 7.0
    assert decode(b'{"at":2.0,"kind":"Decided","wake_at":null}')[1] == decided(inf)
    line = decided(7.0, {8: 1, 1: 3})
    assert decode(encode(2.0, line)) == (2.0, line)
    assert line.held_back == ((1, 3), (8, 1))


def test_a_line_reads_as_a_person_would_write_it() -> None:
    start = actions.Start(3, "a", Allocation((Device("n0", 1),)), ("b",))
    assert json.loads(encode(5.0, start)) == {
        "at": 5.0,
        "kind": "Start",
        "id": 3,
        "job": "a",
        "allocation": {
            "devices": [["n0", 1]],
            "plan": {
                "tensor": 1,
                "pipeline": 1,
                "data": None,
                "shard": "none",
                "offload": False,
                "recompute": False,
                "accumulate": 1,
            },
            "turn": 0,
            "host": None,
        },
        "after": ["b"],
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "truncated"),
        (b"[]", "got `array`"),
        (b'{"kind":"Stop"}', "Expected `float`"),
        (b'{"at":1,"kind":"Stop","id":"1","job":"a"}', r"\$\.id"),
        (b'{"at":1,"kind":"Stop","id":1,"job":"a","x":1}', "Stop has no field 'x'"),
        (b'{"at":1,"kind":"JobSubmitted","spec":{"id":"","iterations":1}}', "needs an id"),
        (b'{"at":1,"kind":"Halt"}', "expected a kind among Opened, Decided, "),
    ],
)
def test_a_line_that_cannot_be_read_says_why(text: bytes, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence):
        decode(text)


@given(st.binary(max_size=60))
def test_no_line_however_odd_raises_anything_else(text: bytes) -> None:
    with suppress(InvalidInputError):
        decode(text)


def test_for_whom_a_job_is_stopped_is_written_only_where_it_is_known() -> None:
    assert b"for_job" not in encode(1.0, actions.Stop(1, "a"))
    _, found = decode(encode(1.0, actions.Stop(1, "a", for_job="b")))
    assert isinstance(found, actions.Stop)
    assert found.for_job == "b"

"""What `convert` writes, `load` reads back as the same jobs."""

import gzip
from dataclasses import fields

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.core.allocation import Pause
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.traces.convert import write
from treadle.traces.csv_columns import COLUMNS, STATUS
from treadle.traces.load import load
from treadle.traces.workload import Workload

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
# A device type or a node as it may be called; a cell has several, with | between them.
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9 ._+()/:-]{0,6}[a-z0-9])?", fullmatch=True)
SEVERAL = st.lists(NAMES, max_size=3, unique=True).map(tuple)
TEXTS = st.lists(WORDS, max_size=2).map(tuple)
LENGTHS = st.floats(1e-9, 1e4)
STAGES = st.floats(0, 1e5)  # together with LENGTHS below a hundred years
FROM_ZERO = st.floats(0, 1e12)
MAYBE = st.none() | FROM_ZERO
SIZES = st.sets(st.integers(1, 4096), min_size=1, max_size=4).map(lambda s: tuple(sorted(s)))
PROFILES = st.builds(
    Profile,
    load_s=STAGES,
    prepare_s=STAGES,
    compute_s=LENGTHS,
    sync_s=STAGES,
    alone_s=st.just(0.0) | LENGTHS,
    size=st.integers(1, 4096),
    serial=st.floats(0, 1),
    restart_s=FROM_ZERO,
    suspend_s=FROM_ZERO,
    resume_s=FROM_ZERO,
    memory_gib=FROM_ZERO,
    model=WORDS,
    curve=st.dictionaries(st.integers(1, 4096), LENGTHS, max_size=3).map(
        lambda points: tuple(sorted(points.items()))
    ),
    measured=st.just(()) | SIZES,
    busy=MAYBE,
    memory_busy=MAYBE,
    cores=MAYBE,
    across_nodes=FROM_ZERO,
    across_racks=FROM_ZERO,
    by_type=st.dictionaries(NAMES, LENGTHS, max_size=3).map(lambda found: tuple(found.items())),
)
PLANS = st.builds(
    Plan,
    tensor=st.integers(1, 8),
    pipeline=st.integers(1, 8),
    data=st.none() | st.integers(1, 8),
    shard=st.sampled_from(["none", "optimizer", "gradients", "all"]),
    offload=st.booleans(),
    recompute=st.booleans(),
    accumulate=st.integers(1, 8),
)
FIELDS = {
    "id": WORDS.filter(bool),
    "iterations": LENGTHS,
    "sizes": SIZES,
    "profile": PROFILES,
    "plans": st.lists(PLANS.filter(DATA_PARALLEL.__ne__), max_size=2).map(
        lambda plans: (*plans, DATA_PARALLEL)
    ),
    "submit_at": FROM_ZERO,
    "owner": WORDS,
    "tenant": WORDS,
    "guaranteed": st.booleans(),
    "priority": st.integers(-1000, 1000),
    "deadline_at": MAYBE,
    "retries": st.integers(0, 9),
    "retry_unknown": st.none() | st.booleans(),
    "order_work": FROM_ZERO,
    "estimate_s": FROM_ZERO,
    "command": TEXTS,
    "kind": WORDS,
    "trial": st.booleans(),
    "resumable": st.booleans(),
    "preemptible": st.booleans(),
    "pauses": st.sampled_from([(), (Pause.FROZEN,), (Pause.SUSPENDED,), (*Pause,)]),
    "host_memory_gib": FROM_ZERO,
    "host_cores": FROM_ZERO,
    "device_memory_gib": FROM_ZERO,
    "exclusive": st.booleans(),
    "ousted_by": TEXTS,
    "device_types": SEVERAL,
    "nodes": SEVERAL,
}


@st.composite
def jobs(draw):
    drawn = draw(st.fixed_dictionaries(FIELDS))
    return JobSpec(**drawn, asked=draw(st.sampled_from(drawn["sizes"])))


def test_every_field_of_a_job_is_drawn_and_has_a_column():
    in_profile = {f"profile.{field.name}" for field in fields(Profile)}
    in_profile.remove("profile.lead")  # It is known of an attempt that runs.
    assert {field.name for field in fields(JobSpec)} == {*FIELDS, "asked"}
    assert {column.field for column in COLUMNS} == {*FIELDS, "asked", STATUS} - {
        "profile"
    } | in_profile


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(jobs(), min_size=1, max_size=4, unique_by=lambda job: job.id),
    st.lists(WORDS, min_size=4, max_size=4),
    st.booleans(),
)
def test_a_round_trip_loses_nothing(tmp_path_factory, specs, ends, packed):
    path = tmp_path_factory.mktemp("round") / ("trace.csv.gz" if packed else "trace.csv")
    statuses = {spec.id: end for spec, end in zip(specs, ends, strict=False) if end}
    workload = Workload.of("drawn", specs, statuses=statuses, notes=("one note", "another"))
    write(workload, path)
    again = load(str(path))
    assert again.jobs == workload.jobs
    assert again.statuses == workload.statuses
    assert again.notes == workload.notes


def test_the_same_workload_is_the_same_bytes(tmp_path):
    drawn = load("generate:poisson?jobs=5")
    write(drawn, tmp_path / "a.csv.gz")
    write(drawn, tmp_path / "b.csv.gz")
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).startswith(b"# drawn for 64")


def test_an_existing_file_is_kept_unless_forced(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("precious")
    drawn = load("generate:poisson?jobs=5")
    with pytest.raises(InvalidInputError) as caught:
        write(drawn, path)
    assert str(caught.value) == f"{path} already exists; use --force to replace it"
    assert path.read_text() == "precious"
    write(drawn, path, force=True)
    assert load(str(path)).jobs == drawn.jobs


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("precious")

    def full(_):
        yield "id\n"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("treadle.traces.convert.text_lines", full)
    with pytest.raises(InvalidInputError) as caught:
        write(load("generate:poisson?jobs=5"), path, force=True)
    assert str(caught.value) == f"cannot write {path}: no space left on device"
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_a_job_with_plans_of_its_own_offers_the_default_as_well(tmp_path):
    path = tmp_path / "trace.csv"
    plans = '"[{""tensor"": 4, ""data"": 1}]"'
    path.write_text(f"id,submit_s,sizes,iterations,plans\na,0,4,10,{plans}\n")
    assert load(str(path)).jobs[0].plans == (Plan(tensor=4, data=1), DATA_PARALLEL)

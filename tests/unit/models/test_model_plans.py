"""Times of plans: what makes an iteration longer, what never does, and what is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.errors import InvalidInputError
from treadle.core.plan import Plan
from treadle.models.plans.catalogue import TYPES
from treadle.models.plans.iteration_time import Factors, Links, ModelFacts, ModelType, overlap
from treadle.models.plans.space import legal_plans

FACTS = ModelFacts("toy", 1 << 30, 16, 128, 256, 8, 8, forward_ms=160.0)
LINKS = Links(inner=100.0, outer=10.0, host=20.0, devices_per_card=2, chunks=False)
FACTORS = Factors(2.0, 1.0, 0.1, 1.0, 5.0, 7.0, 3.0)
TOY = ModelType(FACTS, LINKS, FACTORS)
SHAPES = [(1,), (2,), (4,), (8,), (4, 4), (2, 2, 2, 2), (8, 8), (3, 1), (5, 3), (8,) * 8]

shapes = st.sampled_from(SHAPES)
types = st.sampled_from(sorted(TYPES))
offload = Plan(shard="gradients", offload=True)


def drawn_plan(data: st.DataObject, model: ModelType, shape: tuple[int, ...]) -> Plan | None:
    plans = list(legal_plans(model.facts, shape))
    return data.draw(st.sampled_from(plans)) if plans else None


@given(name=types, shape=shapes, cores=st.floats(0.5, 64), data=st.data())
def test_every_part_of_an_iteration_takes_some_time_or_none(
    name: str, shape: tuple[int, ...], cores: float, data: st.DataObject
) -> None:
    plan = drawn_plan(data, TYPES[name], shape)
    if plan is None:
        return
    times = TYPES[name].times(plan, shape, cores=cores)
    assert times.forward_ms > 0
    assert times.exchange_ms > 0
    assert min(times.optimizer_ms, times.fixed_ms) >= 0
    assert times.iteration_s == pytest.approx(times.iteration_ms / 1000)


@given(
    name=types,
    shape=shapes,
    link=st.sampled_from(["inner", "outer", "host"]),
    more=st.floats(1.0, 10.0),
    data=st.data(),
)
def test_more_bandwidth_is_never_slower(
    name: str, shape: tuple[int, ...], link: str, more: float, data: st.DataObject
) -> None:
    model = TYPES[name]
    plan = drawn_plan(data, model, shape)
    if plan is None:
        return
    wider = Links(
        **{
            **{part: getattr(model.links, part) for part in ("inner", "outer", "host")},
            link: getattr(model.links, link) * more,
        },
        devices_per_card=model.links.devices_per_card,
        chunks=model.links.chunks,
    )
    faster = replace(model, links=wider).iteration_s(plan, shape)
    assert faster <= model.iteration_s(plan, shape) * (1 + 1e-12)


@given(name=types, cores=st.floats(0.5, 32), more=st.floats(1.0, 4.0))
def test_more_cores_help_an_optimizer_on_the_host_and_no_other(
    name: str, cores: float, more: float
) -> None:
    model = TYPES[name]
    few, many = (model.iteration_s(offload, (4,), cores=c) for c in (cores, cores * more))
    assert many <= few
    plain = [model.iteration_s(Plan(), (4,), cores=c) for c in (cores, cores * more)]
    assert plain[0] == plain[1]


@given(
    x=st.floats(0, 1e9), y=st.floats(0, 1e9), power=st.one_of(st.floats(1, 1e12), st.just(1e300))
)
def test_an_overlap_lies_between_the_longer_part_and_the_sum(
    x: float, y: float, power: float
) -> None:
    both = overlap(x, y, power)
    assert max(x, y) <= both * (1 + 1e-12)
    assert both <= (x + y) * (1 + 1e-12)


def test_one_micro_batch_makes_a_pipeline_as_slow_as_one_device() -> None:
    """And many make it nearly p times faster: m + p − 1 slots of 1 / (m p)."""
    alone = TOY.times(Plan(), (1,)).forward_ms
    times = {m: TOY.times(Plan(pipeline=4, accumulate=m), (4,)).forward_ms for m in (1, 2, 16)}
    assert times[1] == pytest.approx(alone)
    assert times[2] == pytest.approx(alone * 5 / 8)
    assert times[16] == pytest.approx(alone * 19 / 64)


def test_a_tensor_group_exchanges_activations_and_loses_some_of_its_devices() -> None:
    half = replace(TOY, facts=replace(FACTS, tensor_efficiency=((2, 0.5), (8, 0.25))))
    assert half.times(Plan(tensor=2), (2,)).forward_ms == pytest.approx(160)
    assert half.facts.efficiency(4) == pytest.approx(0.375)
    assert half.facts.efficiency(1) == 0.5
    assert half.facts.efficiency(16) == 0.25
    moved = 4 * 4 * 2 * 16 * 128 * 256 * 8 / 2 / (1 << 20)
    exchange = TOY.times(Plan(tensor=2), (2,)).exchange_ms
    assert exchange == pytest.approx(160 + moved / 100)


def test_stages_hand_activations_on_whole_or_in_chunks() -> None:
    chunks = replace(TOY, links=replace(LINKS, chunks=True))
    plan = Plan(tensor=2, pipeline=2)
    moved = 2 * 2 * 4 * 16 * 128 * 256 / (1 << 20) * 2
    saved = TOY.times(plan, (2, 2)).exchange_ms - chunks.times(plan, (2, 2)).exchange_ms
    assert saved == pytest.approx(moved / 2 / 10)


def test_what_cannot_be_is_refused_with_a_sentence() -> None:
    with pytest.raises(InvalidInputError, match="d4 t2 does not fit 6 devices"):
        TOY.times(Plan(tensor=2, data=4), (6,))
    with pytest.raises(InvalidInputError, match="must be 1 or more"):
        replace(FACTS, batch=0)
    with pytest.raises(InvalidInputError, match="more than its fixed part"):
        replace(FACTS, forward_fixed_ms=160.0)
    with pytest.raises(InvalidInputError, match="efficiencies must be above 0"):
        replace(FACTS, tensor_efficiency=((2, 0.0),))
    with pytest.raises(InvalidInputError, match="bandwidths must be above 0"):
        replace(LINKS, outer=0.0)

"""Treadle's model of sharing by hand: how long jobs wait for each other."""

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import JobSpec, Profile
from treadle.models import tokens
from treadle.models.catalogue import MURI, muri_profile
from treadle.models.scaling import Effects, ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import LANES, Lanes, TokenModel


def model(lanes: Lanes = LANES, turn_s: float = 0.0, effects: Effects | None = None) -> TokenModel:
    return TokenModel(ScalingModel(effects or Effects()), StageTimes(), lanes=lanes, turn_s=turn_s)


def spec(
    name: str = "a",
    *,
    load: float = 0.0,
    prepare: float = 0.0,
    compute: float = 0.0,
    sync: float = 0.0,
    alone: float = 0.0,
) -> JobSpec:
    return JobSpec(name, 1.0, profile=Profile(load, prepare, compute, sync, alone))


def relative(specs: list[JobSpec], **options) -> list[float]:
    chosen = model(**options)
    return [v * s.profile.iteration_s for s, v in zip(specs, chosen.together(specs), strict=True)]


@pytest.mark.parametrize("members", [2, 3, 4, 9])
def test_jobs_that_only_compute_get_equal_shares(members: int) -> None:
    specs = [spec(compute=0.3)] * members
    assert relative(specs) == pytest.approx([1 / members] * members)


def test_three_jobs_by_hand() -> None:
    """Beside two who, in a pair, take 5 s and are at the device for 3 s of them."""
    specs = [spec(compute=2.0, alone=4.0)] * 3
    assert relative(specs) == pytest.approx([4.0 / (4.0 + 2.0 * 2 * 3 / 5)] * 3)


def test_a_job_delayed_at_one_resource_slows_others_less_elsewhere() -> None:
    """A third job that only loads slows the second, and the first is the better for it."""
    computes, both, loads = spec(compute=2.0), spec(load=2.0, compute=2.0), spec(load=9.0)
    pair, three = relative([computes, both]), relative([computes, both, loads])
    assert three[0] > pair[0]
    assert three[1] < pair[1]


def test_a_short_stage_waits_for_half_of_a_turn_that_has_begun() -> None:
    short = spec(prepare=0.9, compute=0.1)
    fills = spec(compute=10.0)
    assert relative([short, fills])[0] == pytest.approx(1.0 / 1.1)
    assert relative([short, fills], turn_s=0.8)[0] == pytest.approx(1.0 / 1.4)


@pytest.mark.parametrize(("members", "lanes"), [(5, 4), (3, 2), (6, 2), (8, 4)])
def test_more_jobs_than_lanes_share_them(members: int, lanes: int) -> None:
    specs = [spec(prepare=1.0)] * members
    assert relative(specs, lanes=Lanes(cpu=lanes)) == pytest.approx([lanes / members] * members)


def test_lanes_are_missed_only_when_more_jobs_than_lanes_are_there() -> None:
    """Both others are there a quarter of the time; then three jobs share two lanes."""
    specs = [spec(prepare=1.0, alone=4.0)] * 3
    assert relative(specs, lanes=Lanes(cpu=2)) == pytest.approx([4.0 / (4.0 + 0.5 / 16)] * 3)


def test_a_stage_is_never_longer_than_the_iteration() -> None:
    """Some of Muri's jobs overlap loading and computing."""
    overlapping = spec(load=3.0, compute=1.0, alone=2.0)
    assert relative([overlapping, spec(load=5.0)]) == pytest.approx([0.5, 0.5])


def test_large_groups_are_worked_out_nearly_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven of Muri's models, exactly and by repetition."""
    profiles = [muri_profile(name, 8) for name in list(MURI)[:7]]
    specs = [JobSpec(p.model, 1.0, sizes=(8,), profile=p) for p in profiles]
    nearly = relative(specs)
    monkeypatch.setattr(tokens, "EXACT_MAX", 7)
    exactly = relative(specs)
    assert nearly != exactly
    assert nearly == pytest.approx(exactly, rel=0.08)


def test_company_and_place_both_count() -> None:
    chosen = model(effects=Effects(across_nodes=0.5))
    two = JobSpec("a", 1.0, sizes=(2,), profile=Profile(compute_s=0.1, size=2))
    apart = Allocation((Device("n0", 0), Device("n1", 0)))
    assert chosen.iterations_per_s(two, apart, ()) == pytest.approx(5.0)
    assert chosen.iterations_per_s(two, apart, [(two, apart)]) == pytest.approx(2.5)


def test_s3_sharing_is_charged_once_and_policies_see_it() -> None:
    chosen = model(effects=Effects(shared=0.5))
    a, b = spec(compute=0.1), spec("b", compute=0.1)
    here = Allocation((Device("n0", 0),))
    truth = chosen.iterations_per_s(a, here, [(b, Allocation(here.devices, turn=1))])
    assert truth == pytest.approx(5.0)
    assert chosen.together([a, b])[0] == truth


def test_jobs_that_know_no_stages_share_as_their_model_does() -> None:
    chosen = model()
    gpt = JobSpec("a", 9.0, profile=Profile(model="gpt2"))
    dqn = JobSpec("b", 9.0, profile=Profile(model="dqn"))
    assert chosen.efficiency([gpt, dqn]) > 1.9
    assert chosen.efficiency([gpt, gpt]) < 1.1
    assert chosen.alone(gpt, 1) == 1.0

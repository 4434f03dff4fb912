"""The words a person types for time, restart costs and effects, and what they mean."""

from math import inf
from pathlib import Path

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec, Profile
from treadle.models.scaling import NO_EFFECTS, PHILLY, Effects, ScalingModel
from treadle.models.stages import StageTimes
from treadle.sim.costs import MEASURED, ByModel, Constant
from treadle.sim.settings import effects, elastic_sizes, look, restart_cost, sharing
from treadle.testing.builders import job


def of(model: str) -> JobSpec:
    return JobSpec("a", 1.0, profile=Profile(model=model))


def refusal(function, text: str) -> str:
    with pytest.raises(InvalidInputError) as caught:
        function(text)
    return str(caught.value)


def test_no_cost_and_a_constant_one() -> None:
    assert restart_cost("none").seconds(of("bert"), 8) == 0.0
    assert restart_cost("12.5") == Constant(12.5)
    assert restart_cost("12.5").seconds(of("bert"), 8) == 12.5


def test_the_measured_cost_is_by_model_and_size_and_10_s_for_what_was_not_measured() -> None:
    cost = restart_cost("measured")
    assert cost is MEASURED
    assert [cost.seconds(of("a2c"), size) for size in (1, 2, 8, 32)] == [38, 39, 46, 46]
    assert cost.seconds(of("nobody's"), 1) == 10.0


def test_between_two_sizes_the_larger_ones_cost_holds_and_beyond_all_the_last() -> None:
    cost = ByModel({"m": {8: 3.0, 1: 1.0, 4: 2.0}})
    assert [cost.seconds(of("m"), size) for size in (1, 2, 4, 5, 99)] == [1.0, 2.0, 2.0, 3.0, 3.0]


def test_a_cost_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "costs.csv"
    path.write_text("model,size,seconds\nbert,1,5\nbert,4,7.5\n")
    cost = restart_cost(str(path))
    assert [cost.seconds(of("bert"), size) for size in (1, 3)] == [5.0, 7.5]
    assert cost.seconds(of("gpt2"), 1) == 10.0


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("a,b\n", 1),
        ("model,size,seconds\nbert,1,5\nbert,two,5\n", 3),
        ("model,size,seconds\nbert,1\n", 2),
        ("model,size,seconds\nbert,0,5\n", 2),
        ("model,size,seconds\nbert,1,nan\n", 2),
    ],
)
def test_a_fault_in_a_cost_file_is_named_with_its_line(
    tmp_path: Path, text: str, line: int
) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(text)
    assert refusal(restart_cost, str(path)).startswith(f"{path} line {line}: ")


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b"x" * 200_000])
def test_a_cost_file_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "costs.csv"
    if content is not None:
        path.write_bytes(content)
    assert refusal(restart_cost, str(path)).startswith(f"{path} cannot be read: ")


@pytest.mark.parametrize("text", ["-1", "nan", "inf"])
def test_a_cost_is_0_or_more_seconds(text: str) -> None:
    assert refusal(restart_cost, text) == (f"a restart cost must be 0 to 1e+08 seconds, not {text}")


def test_effects_by_name_and_by_factor() -> None:
    assert effects("none") is NO_EFFECTS
    assert effects("philly") is PHILLY
    assert effects("nodes=0.5,sharing=0.25") == Effects(across_nodes=0.5, shared=0.25)
    assert effects("racks=1") == NO_EFFECTS


@pytest.mark.parametrize("text", ["nodse=0.5", "nodes=0", "nodes", "racks=1.5"])
def test_effects_that_make_no_sense_are_named(text: str) -> None:
    assert text.partition("=")[0] in refusal(effects, text)


def test_a_factor_of_sharing_is_charged_once_by_the_model_of_that_name() -> None:
    a, b = job("a"), job("b")
    model = sharing("factor", ScalingModel(PHILLY), StageTimes(), "philly")
    here = Allocation((Device("n0", 0),))
    truth = model.iterations_per_s(a, here, [(b, Allocation(here.devices, turn=1))])
    assert truth == pytest.approx(0.77)
    assert model.together([a, b]) == (truth, truth)
    assert model.efficiency([a, b]) == pytest.approx(1.54)


def test_a_factor_of_sharing_beside_another_model_is_refused() -> None:
    with pytest.raises(InvalidInputError) as caught:
        sharing("tokens", ScalingModel(), StageTimes(), "nodes=0.9,sharing=0.5")
    assert str(caught.value) == (
        "the effects are nodes=0.9,sharing=0.5 and --sharing tokens says itself what sharing "
        "costs; use --sharing factor, or leave sharing= out"
    )


def test_time_is_looked_at_by_event_or_by_round() -> None:
    assert look("event")(123.4) == 123.4
    assert look("rounds:300")(301.0) == 600.0
    assert refusal(look, "rounds:0") == (
        "the length of a round must be a number above 0, not '0'; write rounds:300"
    )
    assert refusal(look, "hourly") == (
        "time 'hourly' is not known; expected event or rounds:SECONDS"
    )


@pytest.mark.parametrize("every_s", [300.0, 60.1, 0.1, 0.7])
def test_the_end_of_a_round_is_in_that_round(every_s: float) -> None:
    by_round = look(f"rounds:{every_s}")
    for number in range(200):
        end = number * every_s
        assert by_round(end) == end
        assert by_round(end + every_s / 2) == (number + 1) * every_s
    assert by_round(inf) == inf


@pytest.mark.parametrize(
    ("asked", "devices", "sizes"),
    [
        (1, 8, (1, 2)),
        (3, 8, (1, 2, 3, 4)),
        (4, 8, (1, 2, 4, 8)),
        (4, 6, (1, 2, 4)),
        (8, 4, (1, 2, 4, 8)),
    ],
)
def test_elastic_sizes_are_powers_of_two_up_to_twice_the_asked_size(
    asked: int, devices: int, sizes: tuple[int, ...]
) -> None:
    assert elastic_sizes(asked, Cluster.grid(1, devices)) == sizes


def test_a_profile_can_say_what_its_own_restart_costs() -> None:
    spec = JobSpec("a", 1.0, profile=Profile(restart_s=12.5))
    assert restart_cost("profile").seconds(spec, 4) == 12.5

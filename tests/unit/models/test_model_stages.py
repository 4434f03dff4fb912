"""Where stage times come from."""

from dataclasses import replace

import pytest

from treadle.core.job import JobSpec, Profile
from treadle.models.catalogue import muri_profile
from treadle.models.stages import Stages, StageTimes, draw
from treadle.testing.builders import job


def test_a_profile_that_knows_its_stages_is_taken_at_its_word() -> None:
    profile = Profile(load_s=0.1, prepare_s=0.2, compute_s=0.3, sync_s=0.4, alone_s=0.9)
    times = StageTimes()
    assert times.of(JobSpec("a", 1.0, profile=profile)) == Stages(0.1, 0.2, 0.3, 0.4, 0.9)
    assert times.of(JobSpec("b", 1.0, profile=Profile(compute_s=0.5))) == Stages(0, 0, 0.5, 0, 0.5)
    assert times.drawn == {}


def test_a_named_model_gives_its_stages_stretched_to_the_jobs_iteration() -> None:
    """Of bert on 8 devices: 192 ms alone, of which 0.5 ms data, 167 ms compute, 59 ms network."""
    spec = replace(job("a", size=8), profile=Profile(size=8, model="bert"))
    times = StageTimes()
    stages = times.of(spec)
    assert stages == pytest.approx((0.25 / 192, 0.25 / 192, 167 / 192, 59 / 192, 1.0))
    assert stages.alone_s == spec.profile.iteration_s
    assert times.drawn == {}


def test_a_job_without_stages_or_name_draws_a_model_and_is_noted() -> None:
    times = StageTimes(seed=3)
    spec = job("a", size=4)
    stages = times.of(spec)
    model = times.drawn["a"]
    measured = muri_profile(model, 4)
    assert stages.compute_s == pytest.approx(measured.compute_s / measured.iteration_s)
    assert stages.alone_s == 1.0
    times.of(spec)
    assert len(times.drawn) == 1


def test_a_draw_depends_on_the_seed_and_the_job_alone() -> None:
    assert [draw(0, f"j{n}") for n in range(4)] == [
        "resnet18",
        "shufflenet_v2_x1_0",
        "a2c",
        "vgg19",
    ]
    assert draw(1, "j0") != draw(0, "j0")


def test_another_job_of_the_same_name_is_not_mistaken_for_the_first() -> None:
    times = StageTimes()
    first, second = JobSpec("a", 1.0, profile=Profile(compute_s=2.0)), job("a")
    assert times.of(first).compute_s == 2.0
    assert times.of(second).compute_s < 1.0
    assert times.of(job("a", size=32)) != times.of(second)

"""Ladders follow what is believed, also when that changes."""

from treadle.core.job import Job, JobSpec, Profile
from treadle.core.lifecycle import Phase
from treadle.models.learning.belief import Learned
from treadle.models.noisy import Noisy
from treadle.models.scaling import ScalingModel
from treadle.models.sizes.ladders import Ladders

PROFILE = Profile(model="resnet", serial=0.2)


def row(identity: str) -> Job:
    spec = JobSpec(identity, 10.0, sizes=(1, 2, 4), asked=1, profile=PROFILE)
    return Job(spec, 0, Phase.WAITING, 0.0, 0.0)


def test_a_ladder_is_kept_until_the_belief_changes() -> None:
    belief = Learned(ScalingModel())
    ladders = Ladders(belief)
    before = ladders.of(row("a"))
    assert before.speeds == (1.0, 2.0, 4.0)
    assert ladders.of(row("b")) is before
    belief.observe(row("a").spec, 2, 1.5)
    after = ladders.of(row("b"))
    assert after.speeds[1] == 1.5
    assert ladders.of(row("a")) is after


def test_jobs_of_one_profile_are_misjudged_each_in_its_own_way() -> None:
    ladders = Ladders(Noisy(ScalingModel(), spread=1.0, seed=0))
    a, b = ladders.of(row("a")), ladders.of(row("b"))
    assert a.speeds[0] != b.speeds[0]
    assert ladders.of(row("a")) is a


def test_a_belief_that_is_the_profiles_alone_has_one_ladder_for_each_profile() -> None:
    ladders = Ladders(ScalingModel())
    assert not ladders.may_change
    assert ladders.of(row("a")) is ladders.of(row("b"))

"""Under `--belief learned`, reservations read the mean, and policies order by the index length."""

from treadle.core.job import Job, JobSpec
from treadle.core.lifecycle import Phase
from treadle.models.learning.kinds import Likeness
from treadle.models.lengths.gittins import equivalent_s
from treadle.models.scaling import ScalingModel
from treadle.policies.wrappers.overtaking import alone_s
from treadle.sim.hidden_lengths import LengthLearner


def waiting(spec: JobSpec) -> Job:
    return Job(spec, 0, Phase.WAITING, 0.0, 0.0)


def test_a_job_is_announced_with_its_mean_and_with_the_length_that_orders_it() -> None:
    model = ScalingModel()
    learner = LengthLearner(model, reporting=True)
    job = waiting(learner.announced(JobSpec("a", 50.0, owner="ann")))
    lengths = learner.knowledge.expect(Likeness(("ann/", "*")), 1).length
    assert alone_s(job, model, 0.0) == job.remaining_at(0.0) == lengths.mean()
    assert job.order_at(0.0) == equivalent_s(lengths) < lengths.mean()
    assert job._replace(starts=1).order_at(0.0) == job.remaining_at(0.0)


def test_a_job_of_known_length_has_one_length() -> None:
    job = waiting(JobSpec("a", 50.0))
    assert job.order_at(0.0) == job.remaining_at(0.0) == 50.0

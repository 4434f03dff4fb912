"""What facts teach about execution plans: live, and where a journal is lived through again."""

from collections.abc import Iterable, Mapping

from treadle.control.learning.outcomes import step_s
from treadle.core.events import JobProgressed, JobStarted
from treadle.core.job import Job, JobId
from treadle.models.plans.live_plans import LivePlans


def learn_plans(plans: LivePlans, facts: Iterable[object], jobs: Mapping[JobId, Job]) -> None:
    """Take in what jobs say of their models and how fast they are.

    jobs: the scheduler's, once it has taken these facts. It must come before the next decision,
    which goes by what was learned.
    """
    for fact in facts:
        match fact:
            case JobStarted() if (row := jobs.get(fact.job)) is not None:
                plans.meet(row.spec, fact.changes)
            case JobProgressed() if (row := jobs.get(fact.job)) is not None:
                said = fact.progress
                if said is None or not said.alone or fact.action != row.action:
                    continue
                if (seconds := step_s(said)) is not None:
                    plans.observe(row, 1.0 / seconds)
            case _:
                pass

"""What only a job's owner and admins see: its output, variables and uncommitted changes.

Every viewer sees that a job exists, its command and why it is pending; a shared queue needs that.
The rest may be private.
"""

from dataclasses import replace

from treadle.wire.jobs import JobDetail, JobPage, JobView, Why
from treadle.wire.machine import Role, Who
from treadle.wire.problems import NotAllowedError

HIDDEN = "hidden"


def may_read(who: Who, job: JobView) -> str:
    """The job's id, by which they may read its output; raises if they may not.

    A caller who was given a name goes on with the id: the name may come to stand for
    somebody else's job at any time.
    """
    if not _private_to(who, job):
        raise NotAllowedError(
            f"the output of job {job.id} is {job.user}'s; only its owner and admins may read it"
        )
    return job.id


def shown(who: Who, detail: JobDetail) -> JobDetail:
    """The job as this person may see it: names of variables without their values, no diff."""
    if _private_to(who, detail.job):
        return detail
    code = None if detail.code is None else replace(detail.code, diff="", cut=False)
    failure = None if detail.failure is None else replace(detail.failure, evidence="")
    attempts = tuple(
        replace(
            attempt,
            failure=None if attempt.failure is None else replace(attempt.failure, evidence=""),
            workdirs=(),
        )
        for attempt in detail.attempts
    )
    env = dict.fromkeys(detail.env, HIDDEN)
    return replace(detail, env=env, code=code, failure=failure, attempts=attempts, again=None)


def shown_page(who: Who, page: JobPage) -> JobPage:
    """The same for the arguments of jobs in a list: values of variables are their user's."""
    return replace(page, jobs=tuple(_without_variables(who, job) for job in page.jobs))


def _without_variables(who: Who, job: JobView) -> JobView:
    variables = [name for name in job.arguments if name.startswith("$")]
    if not variables or _private_to(who, job):
        return job
    return replace(job, arguments={**job.arguments, **dict.fromkeys(variables, HIDDEN)})


def shown_why(who: Who, job: JobView, why: Why) -> Why:
    """The same for the reasons of a job: how it failed is quoted from its output."""
    if _private_to(who, job) or not job.state.ended:
        return why
    return replace(why, details=())


def _private_to(who: Who, job: JobView) -> bool:
    return who.role is Role.ADMIN or who.is_owner(job.user, job.uid)

"""Routes about jobs."""

from typing import Annotated

from fastapi import Header, Path, Query
from pydantic import BeforeValidator
from starlette.responses import Response

from treadle.core.allocation import Pause
from treadle.core.job_report import Report
from treadle.server.access import JOB, Load
from treadle.server.answers import answer
from treadle.server.privacy import may_read, shown, shown_page, shown_why
from treadle.server.routes import Asking, Served, Topic
from treadle.wire.history import JobHistory
from treadle.wire.job_orders import JobsOrder, JobsOrdered
from treadle.wire.jobs import (
    DryRun,
    JobChange,
    JobDetail,
    JobPage,
    JobRequest,
    JobView,
    LogPiece,
    State,
    Submitted,
    Why,
)
from treadle.wire.machine import Role
from treadle.wire.problems import InvalidRequestError
from treadle.wire.retention import Pruned, PruneRequest

PAGE_MAX = 10_000
LOG_PIECE_MAX = 2**20
OFFSET_MAX = 2**53

route = Topic("jobs")

Identity = Annotated[
    str, Path(max_length=200, description="A job's id, an array's id, or a unique name.")
]
Text = Annotated[str, Query(max_length=200)]
Attempt = Annotated[int, Query(ge=0, le=1_000_000, description="Counts from 1; 0 is the newest.")]
Rank = Annotated[int, Query(ge=0, le=1_000_000)]
Offset = Annotated[
    int, Query(ge=-OFFSET_MAX, le=OFFSET_MAX, description="In bytes; negative counts from the end.")
]


def _numbers(body: object) -> object:
    """Refuse true and "7", which would be read as the numbers 1 and 7."""
    for name, found in body.items() if isinstance(body, dict) else ():
        _numbers(found)  # Stages are one level deeper.
        if isinstance(found, bool | str):
            shown = "true or false" if isinstance(found, bool) else "a text"
            raise InvalidRequestError(f"{name!r:.40} is {shown}; expected a number")
    return body


Progressed = Annotated[Report, BeforeValidator(_numbers)]


@route("POST", "/jobs", Role.USER, Submitted, 409, 503, status=201)
async def submit_job(
    asked: JobRequest,
    service: Served,
    who: Asking,
    key: Annotated[
        str,
        Header(
            alias="Idempotency-Key",
            max_length=128,
            pattern=r"^[\x20-\x7e]*$",
            description="Repeating a request with the same key submits nothing new.",
        ),
    ] = "",
) -> Response:
    """Submit a job or an array of jobs."""
    submitted = await service.submit(who, asked, key)
    return await answer(submitted, status=201, headers={"Location": f"/api/v1/jobs/{submitted.id}"})


@route("POST", "/jobs/dry-run", Role.USER, DryRun, load=Load.COMPUTED)
async def dry_run_job(asked: JobRequest, service: Served, who: Asking) -> Response:
    """Check a submission without submitting it."""
    return await answer(service.dry_run(who, asked))


@route("POST", "/jobs/orders", Role.USER, JobsOrdered, 503)
async def order_jobs(order: JobsOrder, service: Served, who: Asking) -> Response:
    """Cancel, hold, release, pause, resume, change or delete many jobs in one request.

    The answer says for each id what was done, or why it was refused. All that is done is committed
    together.
    """
    return await answer(service.order(who, order))


@route("POST", "/prune", Role.USER, Pruned, 503)
async def prune_jobs(request: PruneRequest, service: Served, who: Asking) -> Response:
    """Remove the output of ended jobs, and their records if asked; checkpoints stay.

    An admin prunes all users' jobs, others their own.
    """
    return await answer(service.prune(who, request))


@route("GET", "/jobs", Role.VIEWER, JobPage)
async def list_jobs(  # noqa: PLR0913, PLR0917  (an argument for each query parameter)
    service: Served,
    who: Asking,
    state: Annotated[list[State] | None, Query(description="One state or several.")] = None,
    user: Text = "",
    tenant: Text = "",
    array: Text = "",
    name: Text = "",
    ended: Annotated[bool, Query(description="Include ended jobs.")] = False,
    cursor: Text = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> Response:
    """List jobs, a page at a time."""
    found = await service.jobs(
        states=tuple(each.value for each in state or ()),
        user=user,
        tenant=tenant,
        array=array,
        name=name,
        ended=ended,
        cursor=cursor,
        limit=limit,
    )
    return await answer(shown_page(who, found) if array or name else found)


@route("GET", "/jobs/{identity}", Role.VIEWER, JobDetail, 404)
async def get_job(identity: Identity, service: Served, who: Asking) -> Response:
    """Show a job's full record, without its secrets.

    Only its owner and admins see the values of its variables and its uncommitted changes.
    """
    return await answer(shown(who, await service.job(identity)))


@route("PATCH", "/jobs/{identity}", Role.USER, JobView, 404, 409, 503)
async def change_job(
    identity: Identity, change: JobChange, service: Served, who: Asking
) -> Response:
    """Change a job's priority, time limit or name; of a waiting one also devices and tenant."""
    return await answer(service.change(who, identity, change))


@route("POST", "/jobs/{identity}/cancel", Role.USER, tuple[JobView, ...], 404, 409, 503)
async def cancel_job(identity: Identity, service: Served, who: Asking) -> Response:
    """Cancel a job or an array."""
    return await answer(service.cancel(who, identity))


@route("POST", "/jobs/{identity}/hold", Role.USER, tuple[JobView, ...], 404, 409, 503)
async def hold_job(identity: Identity, service: Served, who: Asking) -> Response:
    """Hold a job: one that waits does not start, one that runs is paused, or else stopped.

    One that can neither be paused nor resume is refused.
    """
    return await answer(service.hold(who, identity))


@route("POST", "/jobs/{identity}/release", Role.USER, tuple[JobView, ...], 404, 409, 503)
async def release_job(identity: Identity, service: Served, who: Asking) -> Response:
    """Release a held job."""
    return await answer(service.release(who, identity))


@route("POST", "/jobs/{identity}/pause", Role.USER, tuple[JobView, ...], 404, 409, 503)
async def pause_job(
    identity: Identity,
    service: Served,
    who: Asking,
    how: Annotated[Pause, Query(description="suspended: it also leaves its GPU memory.")] = (
        Pause.FROZEN
    ),
) -> Response:
    """Pause a running job, which goes on later where it was; one that waits is held."""
    return await answer(service.pause(who, identity, how))


@route("POST", "/jobs/{identity}/resume", Role.USER, tuple[JobView, ...], 404, 409, 503)
async def resume_job(identity: Identity, service: Served, who: Asking) -> Response:
    """Let a paused or held job go on, once its devices are free."""
    return await answer(service.resume(who, identity))


@route("GET", "/jobs/{identity}/why", Role.VIEWER, Why, 404, load=Load.COMPUTED)
async def why_job(
    identity: Identity, service: Served, who: Asking, verbose: bool = False
) -> Response:
    """Explain why a job waits, runs or ended; verbose: also what would start it now.

    Of an array: what its jobs do, why the next one waits, and when all have ended.
    """
    why = await service.why(identity, verbose=verbose)
    if why.members:
        return await answer(why)  # It quotes the output of no job.
    job = (await service.job(why.id)).job
    return await answer(shown_why(who, job, why))


@route("GET", "/jobs/{identity}/history", Role.VIEWER, JobHistory, 404)
async def job_history(identity: Identity, service: Served) -> Response:
    """Show what a job used over time: devices, memory, cores, energy; also after it has ended."""
    return await answer(service.job_history(identity))


@route("POST", "/jobs/{identity}/report", JOB, None, 404, 409, status=204, load=Load.NONE)
async def report_job(
    identity: Identity, report: Progressed, service: Served, who: Asking
) -> Response:
    """Report a running job's progress; jobs do so themselves, with their own token."""
    await service.report(who, identity, report)
    return Response(status_code=204)


@route("GET", "/jobs/{identity}/log", Role.VIEWER, LogPiece, 404)
async def read_log(
    identity: Identity,
    service: Served,
    who: Asking,
    attempt: Attempt = 0,
    rank: Rank = 0,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=4, le=LOG_PIECE_MAX)] = 65536,
) -> Response:
    """Read part of one rank's output; for the job's owner and admins only."""
    job = may_read(who, (await service.job(identity)).job)
    piece = service.log(job, attempt=attempt, rank=rank, offset=offset, limit=limit)
    return await answer(piece)

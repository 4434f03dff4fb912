"""The queue as a whole: who waits and when they would start, shares, and free devices."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from treadle.control.api.briefs import Brief, Briefs
from treadle.control.api.context import Context
from treadle.control.api.estimates import starts_of_all
from treadle.control.api.queue_order import all_devices, closed_idle, held_back, positions
from treadle.core.job import Job, JobId
from treadle.core.wording import are, devices, listed, sizes
from treadle.wire.jobs import StartEstimate
from treadle.wire.queue import Fragmentation, NodeFree, QueuedJob, QueueView, TenantShare, UserShare

SHOWN = 100
NODES_MAX = 200
NAMED_MAX = 4


def queue_view(context: Context) -> QueueView:
    """Of a context that nothing changes meanwhile."""
    scheduler = context.scheduler
    places = positions(scheduler)
    first, behind = list(places)[:SHOWN], held_back(scheduler)
    records, briefs = context.jobs.records, Briefs(context)
    reasons = {job: briefs.of(records[job], scheduler.jobs[job]) for job in first if job in records}
    starts = starts_of_all(context, first) if first else {}
    return QueueView(
        jobs=tuple(
            _queued(context, job, place, starts.get(job), reasons.get(job))
            for job, place in places.items()
            if place <= SHOWN
        ),
        waiting=len(places) + len(behind),
        held_back=len(behind),
        shares=tuple(_shares(context, [scheduler.jobs[job] for job in (*places, *behind)])),
        fragmentation=fragmentation(context),
        users=tuple(_users(context, Counter(scheduler.jobs[j].spec.owner for j in places))),
    )


def _queued(
    context: Context, job: JobId, place: int, start: StartEstimate | None, found: Brief | None
) -> QueuedJob:
    spec = context.scheduler.jobs[job].spec
    record = context.jobs.records.get(job)
    asks = f"{sizes(spec.sizes)} devices" if spec.elastic else devices(spec.asked)
    return QueuedJob(
        job=job,
        name="" if record is None else record.name,
        user=spec.owner,
        tenant=spec.tenant,
        place=place,
        asks=asks,
        start=start,
        cause="" if found is None else found.reason.code,
        numbers={} if found is None else dict(found.reason.numbers),
        because="" if found is None else found.sentence,
    )


def quotas_too_large(context: Context) -> str:
    """One sentence if a tenant's quota is more than the cluster, which may yet grow; else empty."""
    scheduler = context.scheduler
    given = scheduler.policy.quotas(scheduler.snapshot(context.clock.now())) or {}
    most = scheduler.cluster.device_count
    large = [(tenant, quota) for tenant, quota in given.items() if quota > most]
    if not large:
        return ""
    rows = [f"{quota:g} of {tenant or 'jobs without a tenant'}" for tenant, quota in large]
    quota = "a quota is" if len(rows) == 1 else "quotas are"
    return f"{quota} larger than the cluster's {devices(most)}: {listed(rows, NAMED_MAX)}"


def _shares(context: Context, waiting: Sequence[Job]) -> list[TenantShare]:
    """What each tenant holds; what it deserves only if the policy has quotas."""
    scheduler = context.scheduler
    used: defaultdict[str, float] = defaultdict(float)
    for tenants in scheduler.tenancy.tenants.values():
        for job in tenants.values():
            used[scheduler.jobs[job].spec.tenant] += 1.0 / len(tenants)
    lines = Counter(job.spec.tenant for job in waiting)
    given = scheduler.policy.quotas(scheduler.snapshot(context.clock.now()))
    found = []
    for tenant in sorted({*used, *lines, *(given or ())}):
        held = used.get(tenant, 0.0)
        deserved = None if given is None else round(given.get(tenant, 0.0), 3)
        over = None if deserved is None else max(0.0, held - deserved)
        found.append(
            TenantShare(
                tenant=tenant,
                used=round(held, 3),
                waiting=lines[tenant],
                deserved=deserved,
                borrowed=None if over is None else round(over, 3),
            )
        )
    return _lending(found)


def _users(context: Context, waiting: Mapping[str, int]) -> Iterator[UserShare]:
    """Who is entitled to what; none if it does not matter who has used how much."""
    scheduler = context.scheduler
    standings = scheduler.policy.standings(scheduler.snapshot(context.clock.now())) or {}
    holds = Counter[str]()
    for job in scheduler.jobs.values():
        holds[job.spec.owner] += job.size
    for user in sorted(standings):
        stands = standings[user]
        yield UserShare(
            user=user,
            weight=stands.weight,
            used_h=round(stands.used_s / 3600.0, 6),
            entitled=round(stands.entitled, 3),
            holds=holds[user],
            waiting=waiting[user],
        )


def _lending(shares: list[TenantShare]) -> list[TenantShare]:
    """With what each has lent: of what all others borrow, its part of what is left unused."""
    borrowed = sum(share.borrowed or 0.0 for share in shares)
    unused = {s.tenant: max(0.0, (s.deserved or 0.0) - s.used) for s in shares}
    whole = sum(unused.values())
    part = min(1.0, borrowed / whole) if whole else 0.0
    return [
        share
        if share.deserved is None
        else replace(share, lent=round(part * unused[share.tenant], 3))
        for share in shares
    ]


def fragmentation(context: Context) -> Fragmentation:
    """How the devices lie that a job could be given now."""
    scheduler = context.scheduler
    free = Counter(d.node for d in scheduler.tenancy.free if d not in scheduler.closed)
    there = {node.name: node.device_count for node in scheduler.cluster.nodes}
    total, most = free.total(), max(free.values(), default=0)
    text = f"{total:,} of {devices(all_devices(scheduler))} free"
    if away := all_devices(scheduler) - scheduler.cluster.device_count:
        text += f", {away:,} on drained nodes"
    if total > most:
        text += f"; at most {most:,} on one node"
    if shut := closed_idle(scheduler):
        text += f"; {listed(list(map(str, shut)), NAMED_MAX)} {are(len(shut))} closed"
    ordered = sorted(free.items(), key=lambda item: (-item[1], item[0]))
    return Fragmentation(
        free=total,
        largest_gang=most,
        nodes=tuple(
            NodeFree(node=node, free=count, devices=there.get(node, count))
            for node, count in ordered[:NODES_MAX]
        ),
        sentence=text,
    )

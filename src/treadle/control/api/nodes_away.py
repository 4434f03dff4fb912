"""Nodes that take no jobs for now, drained or lost, and jobs that only wait for them."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from treadle.control.api.context import Context
from treadle.core.cluster import Cluster, Node
from treadle.core.job import Job, JobSpec
from treadle.core.machine import NOT_USED
from treadle.core.reasons import Reason, because
from treadle.core.wording import are, listed
from treadle.policies.base.suited import usable_by

NAMED_MAX = 4


def whole_cluster(context: Context) -> Cluster:
    """As it is once the nodes that are drained or lost are used again."""
    return _with(context, (*context.scheduler.drained.values(), *_lost(context)))


def away(context: Context, row: Job) -> Reason | None:
    """That a job only waits for nodes that are away; None if it does not fit with them either."""
    drained, lost = tuple(context.scheduler.drained.values()), _lost(context)
    usable = usable_by(row.spec, _with(context, (*drained, *lost)))
    drained, lost = (
        tuple(node for node in some if node.name in usable) for some in (drained, lost)
    )
    for first, second in ((drained, ()), ((), lost), (drained, lost)):
        if (first or second) and _fits(context, row.spec, (*first, *second)):
            return because(
                "away",
                drained=_names(first),
                lost=_names(second),
                because=_not_used(context, second),
                undrain=_undraining(context, row),
            )
    return None


def bound_away(context: Context, row: Job) -> Reason | None:
    """That a job has to go on where its files are, and none of these nodes takes jobs."""
    if not row.only_on or not context.cluster.names.isdisjoint(row.only_on):
        return None
    undrain = _undraining(context, row)
    word = "drained" if undrain else "lost"
    nodes, by = row.only_on, row.only_because
    return because("bound-away", nodes=nodes, away=word, undrain=undrain, by=by)


def _undraining(context: Context, row: Job) -> tuple[str, ...]:
    """The drained nodes that help a job that waits for them; none if these are not enough.

    A job that needs several gets the largest of one type, if they are enough.
    """
    away = sorted(context.scheduler.drained.values(), key=lambda node: node.name)
    if row.only_on:
        names = [node.name for node in away if node.name in row.only_on]
        return tuple(names[:1])
    kinds = {replace(node, name="-", rack=""): node for node in reversed(away)}
    for node in away:
        if node in kinds.values() and _fits(context, row.spec, (node,)):
            return (node.name,)
    away.sort(key=lambda node: -node.device_count)
    types = dict.fromkeys(node.device_type for node in away)
    groups = [[node for node in away if node.device_type == each] for each in types]
    for group in (*groups, away):
        if _fits(context, row.spec, group):
            enough = partial(_enough, context, row.spec, group)
            count = bisect_left(range(len(group)), True, key=enough)
            return _names(group[:count])
    return ()


def _enough(context: Context, spec: JobSpec, nodes: Sequence[Node], count: int) -> bool:
    return _fits(context, spec, nodes[:count])


def on_drained(context: Context, row: Job) -> str:
    """That a job runs on nodes that are drained; empty if it does not."""
    held = () if row.allocation is None else row.allocation.nodes()
    names = [name for name in held if name in context.scheduler.drained]
    if not names:
        return ""
    nodes = "node" if len(names) == 1 else "nodes"
    said = f"{nodes} {listed(names, NAMED_MAX)} {are(len(names))} drained"
    if row.kept_on and not context.cluster.names.intersection(row.only_on):
        said += "; it ends there: no other node sees its checkpoints"
    return said


def starts_over(row: Job) -> str:
    """That the checkpoints of a job that waits were lost with nodes; empty if they were not."""
    if not row.starts_over:
        return ""
    lost = f"{listed(row.kept_on, NAMED_MAX)}, which {'were' if len(row.kept_on) > 1 else 'was'}"
    return f"its checkpoints are on {lost} lost: it starts from the beginning"


def _lost(context: Context) -> tuple[Node, ...]:
    there = {node.name for node in context.cluster.nodes} | context.scheduler.drained.keys()
    return tuple(each.node for each in context.lost if each.node.name not in there)


def _not_used(context: Context, nodes: Sequence[Node]) -> str:
    """Nodes that others use are not lost, though they are taken for it; empty if they are."""
    unused = {each.node.name: each for each in context.lost if each.is_unused}
    if not nodes or any(node.name not in unused for node in nodes):
        return ""
    return f"not used ({unused[nodes[0].name].why.partition(NOT_USED)[2]})"


def _with(context: Context, more: Sequence[Node]) -> Cluster:
    # The same object where nothing is away: policies remember by it what fits.
    return Cluster((*context.cluster.nodes, *more)) if more else context.cluster


def _fits(context: Context, spec: JobSpec, more: Sequence[Node]) -> bool:
    return context.scheduler.policy.never_fits(spec, _with(context, more)) is None


def _names(nodes: Sequence[Node]) -> tuple[str, ...]:
    return tuple(node.name for node in nodes)

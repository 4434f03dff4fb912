"""Which devices of this machine to use, from the options of `treadle up`."""

import os
from collections.abc import Sequence

from treadle.core.errors import EngineError, InvalidInputError
from treadle.engines.context import EngineOptions
from treadle.engines.node.devices import CpuSlots, DeviceSource
from treadle.engines.node.gpus import NvmlGpus

SLOTS_MAX = 4096


def devices_of(options: EngineOptions) -> DeviceSource:
    """The GPUs if there are any, else a CPU slot for each core."""
    if options.devices is not None:
        return CpuSlots(options.devices)
    try:
        return NvmlGpus()
    except EngineError as error:
        if options.gpus or options.avoid:
            raise InvalidInputError(f"GPUs were named, and {error}") from None
    return CpuSlots(min(SLOTS_MAX, len(os.sched_getaffinity(0))))


def excluded_by(options: EngineOptions, source: DeviceSource) -> tuple[int, ...]:
    """Numbers of the devices that the options leave out."""
    excluded = {_number(text, source) for text in options.avoid}
    if options.gpus:
        wanted = {_number(text, source) for text in options.gpus}
        excluded |= set(range(len(source.uuids))) - wanted
    return tuple(sorted(excluded))


def not_offered(uuids: Sequence[str], count: int, visible: str | None) -> set[int]:
    """Numbers of the GPUs that Ray does not give out: it offers the first of those that it sees.

    count: so many it was given (`ray start --num-gpus`).
    visible: CUDA_VISIBLE_DEVICES of its raylet, numbers or UUIDs; None: it sees all.
    """
    seen: list[int] = list(range(len(uuids)))
    if visible is not None:
        words = [word.strip() for word in visible.split(",") if word.strip()]
        seen = [number for word in words if (number := _named(word, uuids)) is not None]
    return set(range(len(uuids))) - set(seen[:count])


def _named(word: str, uuids: Sequence[str]) -> int | None:
    if word.isascii() and word.isdigit():
        return int(word) if int(word) < len(uuids) else None
    return next((at for at, uuid in enumerate(uuids) if uuid.startswith(word)), None)


def _number(text: str, source: DeviceSource) -> int:
    if text in source.uuids and text:
        return source.uuids.index(text)
    if text.isascii() and text.isdigit() and int(text[:6]) < len(source.uuids):
        return int(text)
    raise InvalidInputError(
        f"there is no GPU {text[:60]!r}; expected a number from 0 to {len(source.uuids) - 1}, "
        "or a UUID"
    )

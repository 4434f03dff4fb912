"""Which devices of this machine to use, from the options of `treadle up`."""

import os

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


def _number(text: str, source: DeviceSource) -> int:
    if text in source.uuids and text:
        return source.uuids.index(text)
    if text.isascii() and text.isdigit() and int(text[:6]) < len(source.uuids):
        return int(text)
    raise InvalidInputError(
        f"there is no GPU {text[:60]!r}; expected a number from 0 to {len(source.uuids) - 1}, "
        "or a UUID"
    )

"""The engines by name, and what each is made from.

An engine is made by a factory `make(context: EngineContext) -> Engine`. It is imported when it is
used. Third parties register theirs in the entry-point group `treadle.engines`.
"""

import logging
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from treadle.core.errors import InvalidInputError
from treadle.core.ports import Clock, Controls, Engine
from treadle.core.wording import did_you_mean

BUILT_IN: Mapping[str, str] = {
    "local": "treadle.engines.local.engine:local_engine",
    "memory": "treadle.engines.memory:memory_engine",
    "ray": "treadle.engines.ray.ray_engine:ray_engine",
}
GROUP = "treadle.engines"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What `treadle up` was given; an engine refuses what it cannot use."""

    node_name: str = field(default_factory=platform.node)
    devices: int | None = None  # CPU slots, in place of GPUs
    gpus: tuple[str, ...] = ()  # use only these: numbers or UUIDs
    avoid: tuple[str, ...] = ()  # use all but these
    warm: bool = True  # Python jobs may start from warm interpreters
    address: str = ""  # of a cluster, for an engine that attaches to one
    lost_cluster: str = ""  # the address of one that is gone for good, with the jobs there
    # The most that is copied from node to node of a job's checkpoints, or of its code.
    copy_limit_gib: float = 2.0
    turns: str = ""  # on shared devices: "free", "turns", "strict"; empty: what is seen to be best


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """What an engine is made from."""

    controls: Controls
    clock: Clock
    root: Path  # a folder of its own on the controller's machine
    options: EngineOptions = field(default_factory=EngineOptions)
    identity: str = ""  # of the state folder; empty: it has none
    holding: int = 0  # jobs that hold devices, as the last controller left them


EngineFactory = Callable[[EngineContext], Engine]


def engine_factory(name: str) -> EngineFactory:
    """The factory of that name; raises InvalidInputError if there is none."""
    check_engine(name)
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        factory: EngineFactory = getattr(import_module(module), attribute)
        return factory
    point = _plugins()[name]
    try:
        loaded: EngineFactory = point.load()
    except Exception as error:  # a third party's module may raise anything
        raise InvalidInputError(
            f"engine {name!r} cannot be loaded from {point.value}: {error or repr(error)}"
        ) from None
    return partial(_made, f"engine {name!r} of {point.value}", loaded)


def _made(engine: str, factory: EngineFactory, context: EngineContext) -> Engine:
    """What a third party's factory makes, or a sentence that says what is wrong with it."""
    try:
        made = factory(context)
    except InvalidInputError:
        raise
    except Exception as error:  # it may raise anything
        logging.getLogger("treadle").exception("%s", engine)
        raise InvalidInputError(f"{engine} cannot be made: {error or repr(error)}") from None
    if not callable(getattr(made, "nodes", None)):
        raise InvalidInputError(
            f"{engine} gave {type(made).__name__}; expected an engine "
            "(treadle.core.ports.Engine, see docs/add-an-engine.md)"
        )
    return made


def check_engine(name: str) -> None:
    """Raise InvalidInputError if there is no engine of that name."""
    names = sorted({*BUILT_IN, *_plugins()})
    if name not in names:
        hint = did_you_mean(name, names) or f"; expected one of {', '.join(names)}"
        raise InvalidInputError(f"there is no engine {name[:40]!r}{hint}")


def _plugins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}

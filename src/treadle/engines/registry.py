"""The engines by name, and what each is made from.

An engine is made by a factory `make(context: EngineContext) -> Engine`. It is imported when it is
used. Third parties register theirs in the entry-point group `treadle.engines`.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from treadle.core.errors import InvalidInputError
from treadle.core.ports import Engine
from treadle.core.wording import did_you_mean
from treadle.engines.context import EngineContext, EngineOptions

BUILT_IN: Mapping[str, str] = {
    "kubernetes": "treadle.engines.clusters.kubernetes.kubernetes_engine:kubernetes_engine",
    "local": "treadle.engines.clusters.here:local_engine",
    "memory": "treadle.engines.memory:memory_engine",
    "ray": "treadle.engines.clusters.ray.ray_engine:ray_engine",
}
GROUP = "treadle.engines"
__all__ = ["EngineContext", "EngineFactory", "EngineOptions", "check_engine", "engine_factory"]


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

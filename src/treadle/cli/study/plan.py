"""`treadle plan`: the execution plans of a model, with predicted time and memory."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import groupby

import click

from treadle.cli.numbers import Number
from treadle.cli.show.table import Column, table
from treadle.core.errors import InvalidInputError
from treadle.core.wording import devices, did_you_mean
from treadle.models.plans.catalogue import ALIASES, TYPES
from treadle.models.plans.iteration_time import ModelType, Shape
from treadle.models.plans.memory import Room
from treadle.models.plans.space import Candidate, candidates, dense

_NODE = 8
_DEVICES_MAX = 4096
_ABOVE_0 = Number(min=0, min_open=True)
_COLUMNS = (
    Column("plan"),
    *(Column(title, right=True) for title in ("s/iter", "samples/s", "GiB", "host GiB")),
    Column("fits"),
)


@click.command()
@click.argument("model")
@click.option(
    "--devices", type=click.IntRange(1, _DEVICES_MAX), help="Number of devices.  [default: 8]"
)
@click.option(
    "--nodes", metavar="N+N", help="Devices on each node, such as 4+4.  [default: nodes of 8]"
)
@click.option("--cores", type=_ABOVE_0, default=4.0, show_default=True, help="Cores per device.")
@click.option(
    "--memory-gib", type=_ABOVE_0, default=80.0, show_default=True, help="Memory of a device."
)
@click.option(
    "--host-gib", type=_ABOVE_0, default=200.0, show_default=True, help="Host memory per device."
)
@click.option(
    "--all", "every", is_flag=True, help="List every plan, not only the best of each kind."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def plan(
    model: str,
    *,
    devices: int | None,
    nodes: str | None,
    cores: float,
    memory_gib: float,
    host_gib: float,
    every: bool,
    as_json: bool,
) -> None:
    """List the execution plans of MODEL: the time of an iteration, and whether it fits."""
    known = _model(model)
    shape = _shape(devices, nodes)
    room = Room(memory_gib, host_gib)
    found = candidates(known, shape, cores=cores, room=room)
    listed = found if every else _best_of_each_kind(found, room)
    if as_json:
        click.echo(json.dumps([_row(known, c) for c in listed], indent=1))
        return
    click.echo(_heading(known, shape, cores))
    click.echo(_table(known, listed, room))
    if len(listed) < len(found):
        click.echo(f"\nthe best of each kind out of {len(found)} plans; --all lists all")
    unfit = next((candidate for candidate in listed if not candidate.feasible), None)
    if unfit is not None:
        click.echo(f"{unfit.plan.name} does not fit: {unfit.problem}")


plan.epilog = (
    "Models: "
    + ", ".join(TYPES)
    + ". dN copies, tN tensor group, pN pipeline stages, zero-2 sharded gradients and optimizer, "
    "offload the same with the optimizer on the host, xN micro-batches."
)


def _model(name: str) -> ModelType:
    word = name.lower()
    found = TYPES.get(ALIASES.get(word, word))
    if found is None:
        near = did_you_mean(word, [*TYPES, *ALIASES])
        raise InvalidInputError(
            f"no model is called {name!r}; expected one of {', '.join(TYPES)}{near}"
        )
    return found


def _shape(devices: int | None, nodes: str | None) -> Shape:
    """The number of devices on each node."""
    if nodes is None:
        return dense(_NODE if devices is None else devices, _NODE)
    counts = nodes.split("+")
    if not all(count.isascii() and count.isdigit() and int(count[:9]) > 0 for count in counts):
        raise InvalidInputError(f"--nodes is {nodes!r}; expected devices on each node, such as 4+4")
    shape = tuple(sorted((int(count[:9]) for count in counts), reverse=True))
    if sum(shape) > _DEVICES_MAX:
        raise InvalidInputError(
            f"--nodes names {sum(shape)} devices; expected {_DEVICES_MAX} at most"
        )
    if devices is not None and devices != sum(shape):
        raise InvalidInputError(
            f"--nodes {nodes} has {sum(shape)} devices and --devices is {devices}; "
            "remove one of them"
        )
    return shape


def _best_of_each_kind(found: Iterable[Candidate], room: Room) -> list[Candidate]:
    """The fastest plan of each kind that fits, or the one that is closest to fitting."""
    best: dict[tuple[object, ...], Candidate] = {}
    for candidate in found:
        plan = candidate.plan
        kind = (plan.tensor, plan.pipeline, plan.shard, plan.offload)
        known = best.setdefault(kind, candidate)
        if candidate.memory.excess_gib(room) < known.memory.excess_gib(room):
            best[kind] = candidate
    return sorted(best.values(), key=lambda c: (not c.feasible, c.iteration_s))


def _row(model: ModelType, candidate: Candidate) -> dict[str, object]:
    plan = candidate.plan
    return {
        "plan": plan.name,
        **asdict(plan),
        "iteration_s": candidate.iteration_s,
        "samples_per_s": model.facts.batch / candidate.iteration_s,
        "device_gib": candidate.memory.device_gib,
        "host_gib": candidate.memory.host_gib,
        "feasible": candidate.feasible,
        "problem": candidate.problem,
    }


def _heading(model: ModelType, shape: Shape, cores: float) -> str:
    facts = model.facts
    size = sum(shape)
    where = devices(size)
    if len(shape) > 1:
        where += f" on {len(shape)} nodes ({_nodes(shape)})"
    return (
        f"{facts.name}: {facts.parameters / 1e9:.3g} billion parameters, batch {facts.batch}, "
        f"{where}, {cores:g} cores per device\n"
    )


def _nodes(shape: Shape) -> str:
    """Devices on each node: 125x8+4."""
    counts = [(size, len(list(equal))) for size, equal in groupby(shape)]
    return "+".join(f"{count}x{size}" if count > 1 else f"{size}" for size, count in counts)


def _table(model: ModelType, listed: Sequence[Candidate], room: Room) -> str:
    if not listed:
        batch = model.facts.batch
        return f"no plan gives each device the same number of samples; the batch is {batch}"
    rows = [
        (
            c.plan.name,
            f"{c.iteration_s:.3f}",
            f"{model.facts.batch / c.iteration_s:.1f}",
            f"{c.memory.device_gib:.1f}",
            f"{c.memory.host_gib:.1f}",
            _fits(c, room),
        )
        for c in listed
    ]
    return table(_COLUMNS, rows)


def _fits(candidate: Candidate, room: Room) -> str:
    """Whether a plan fits, in few words."""
    needed = candidate.memory
    if candidate.feasible:
        return "yes"
    if needed.device_gib > room.usable_gib:
        return f"no: over {room.usable_gib:.1f} GiB"
    return f"no: host over {room.host_gib:g} GiB"

"""`treadle nodes` and `treadle device`: the devices, their jobs, and which devices Treadle uses."""

import click

from treadle.cli.live.session import echo_json, json_option, session
from treadle.cli.show.table import Column, table
from treadle.cli.show.wording import plain
from treadle.core.cluster import CPU
from treadle.core.device_types import GPU
from treadle.core.machine import UNUSED, DeviceView, NodeView
from treadle.core.wording import ago, several, share

_COLOURS = {
    "free": "green",
    "held": "cyan",
    "foreign": "yellow",
    "quarantined": "red",
    "paused": "red",
    "silent": "red",
    "unconfirmed": "red",
}
_COLUMNS = (
    Column("DEVICE"),
    Column("STATE", colour=_COLOURS.get),
    Column("JOBS", least=8),
    Column("BUSY", right=True),
    Column("MEMORY", right=True),
    Column("WHY", least=20),
)


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def nodes(context: click.Context, as_json: bool) -> None:
    """Show the devices: free, held by jobs, or used by other processes."""
    if context.invoked_subcommand is not None:
        return
    here = session()
    found = here.client.nodes()
    if as_json:
        echo_json(found)
        return
    for place, node in enumerate(found):
        text = node_text(node, here.now(), width=here.width, colour=here.colour)
        click.echo(("\n" if place else "") + text)
    if all(node.health == "lost" for node in found) and (because := here.client.status().problem):
        click.echo(("\n" if found else "") + plain(because))


@nodes.command()
@click.argument("name")
@json_option
def drain(name: str, as_json: bool) -> None:
    """Start no more jobs on node NAME.

    Jobs that can be resized and resumed go on elsewhere; the others end there.
    """
    _order_node(name, "drain", as_json=as_json)


@nodes.command()
@click.argument("name")
@json_option
def undrain(name: str, as_json: bool) -> None:
    """Use node NAME again."""
    _order_node(name, "undrain", as_json=as_json)


@nodes.command()
@click.argument("name")
@json_option
def forget(name: str, as_json: bool) -> None:
    """Give up node NAME, which is off or never comes back.

    Its jobs start elsewhere at once, and may run twice if it is alive. Refused for a node that
    has contact.
    """
    node = session().client.order_node(name, "forget")
    if as_json:
        echo_json(node)
        return
    click.echo(
        f"node {plain(node.name)} is forgotten: its jobs start elsewhere, and may run twice if it "
        "is alive"
    )


def _order_node(name: str, order: str, *, as_json: bool) -> None:
    node = session().client.order_node(name, order)
    if as_json:
        echo_json(node)
        return
    jobs = {job for each in node.devices for job in each.jobs}
    paused = {job for each in node.devices for job in each.paused}
    runs = f"; {several(len(jobs), 'job')} still on it" if node.drained and jobs else ""
    if node.drained and paused:
        runs += f"; {several(len(paused), 'paused job')} on it, lost if it is switched off"
    state = "drained: it takes no new jobs" if node.drained else "in use"
    click.echo(f"node {plain(node.name)} is {state}{runs}")


@click.command()
@click.argument("name")
@click.argument("order", type=click.Choice(["manage", "avoid", "unquarantine"]))
@json_option
def device(name: str, order: str, as_json: bool) -> None:
    """Let Treadle use device NAME (manage), not use it (avoid), or end its quarantine.

    A job on an avoided device keeps running until it ends.
    """
    here = session()
    if order == "unquarantine":
        node = here.client.unquarantine(name)
    else:
        node = here.client.order_device(name, order)
    if as_json:
        echo_json(node)
        return
    changed = [each for each in node.devices if name in (each.name, str(each.number), each.uuid)]
    for each in changed:
        because = f": {plain(each.because)}" if each.because else ""
        click.echo(f"device {plain(each.name)} is {plain(each.state)}{because}")


def node_text(node: NodeView, now: float, *, width: int, colour: bool) -> str:
    """now: seconds since 1970."""
    if node.health == UNUSED:
        return plain(node.warning)
    models = sorted({plain(each.model) for each in node.devices if each.model})
    # What its administrator calls them, or what the driver does.
    own = "" if node.device_type in (CPU, GPU) else plain(node.device_type)
    kind = own or ", ".join(models) or plain(node.device_type)
    memory = f", {node.memory_gib:,.0f} GiB" if node.memory_gib else ""
    cores = several(node.cores, "core")
    rack = f", rack {plain(node.rack)}" if node.rack else ""
    head = f"{plain(node.name)}: {len(node.devices)} x {kind}, {cores}{memory}{rack}"
    if node.health:
        head += f"\n{health_text(node, now)}"
    if node.warning:
        head += f"\n{plain(node.warning)}"
    if node.health == "lost":
        return head
    if node.drained:
        head += "\nit is drained: it takes no new jobs"
    rows = [_row(each) for each in node.devices]
    if node.containment:
        limits = " and ".join(node.enforced) or "no limits"
        head += f"\njobs are contained by {plain(node.containment)}, which enforces {limits}"
    return f"{head}\n{table(_COLUMNS, rows, width=width, colour=colour)}"


def health_text(node: NodeView, now: float) -> str:
    """How its agent does, or that it is lost."""
    since = ago(node.since_at, now)
    match node.health:
        case "lost":
            lost = (
                f"it is lost, which was noticed {since}" if node.noticed else f"it was lost {since}"
            )
            return lost + (f": {plain(node.because)}" if node.because else "")
        case "joining":
            return "its agent has not answered yet"
        case "slow" | "silent":
            last = f"its last answer was {since}" if since else "it has not answered yet"
            return f"its agent is {node.health}: {last}"
        case "unconfirmed":
            said = f"nothing is started there: {plain(node.because)}"
            return said + (f"; it was confirmed last {since}" if since else "")
        case other:
            return f"its agent {plain(other)}"


def _row(each: DeviceView) -> list[str]:
    memory = "" if each.memory_gib is None else f"{each.memory_gib:.1f} GiB"
    if each.memory_gib is not None and each.memory_used_gib is not None:
        memory = f"{each.memory_used_gib:.1f}/{memory}"
    return [
        plain(each.name),
        plain(each.state),
        ", ".join([*map(plain, each.jobs), *(f"{plain(job)} (paused)" for job in each.paused)]),
        share(each.busy),
        memory,
        plain(each.because) or _foreign(each),
    ]


def _foreign(each: DeviceView) -> str:
    """The processes on the device that Treadle did not start."""
    if not each.foreign:
        return ""
    first = each.foreign[0]
    memory = "" if first.memory_gib is None else f", {first.memory_gib:.1f} GiB"
    more = len(each.foreign) - 1
    others = f" and {more} more" if more else ""
    command = f": {plain(first.command)}" if first.command else ""
    return f"pid {first.pid} of {plain(first.user)}{memory}{command}{others}"

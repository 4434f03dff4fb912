"""`treadle demo`: watch small real training jobs being resized and sharing a device, here and now.

It starts a daemon of its own in a temporary folder and stops it at the end; a running daemon is not
touched. The jobs of the first part are simulated under FIFO for comparison. GPUs are used where
there are any: several to be resized on, one to be shared.
"""

import os
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from math import inf
from pathlib import Path

import click

from treadle.cli.live.session import Session
from treadle.cli.numbers import Number
from treadle.cli.show.table import Column, table
from treadle.cli.show.wording import plain
from treadle.cli.study.demo_scene import Scene, gpu_count, own_daemon
from treadle.cli.study.demo_sharing import share
from treadle.core.errors import InvalidInputError
from treadle.core.wording import several
from treadle.demo.story import POLICY, Act, acts, pace
from treadle.journal.journal import Journal, read
from treadle.study.own_orders import CLOSE, error
from treadle.study.whatif import Lived, contradicted, recorded, simulated, with_own_orders
from treadle.wire.jobs import JobView, State
from treadle.wire.machine import EventView

SLOTS_MAX = 4
LINES = 12  # of the output of a job that failed
_TITLES = ("TREADLE", "FIFO", "RESIZED")


@click.command()
@click.option("--devices", type=click.IntRange(2, 64), help="Number of CPU slots, instead of GPUs.")
@click.option(
    "--scale",
    type=Number(0.02, 100),
    default=1.0,
    show_default=True,
    help="Factor on the length of the training jobs.",
)
@click.option("--only", type=click.Choice(["resizing", "sharing"]), help="Show one part only.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the journal at this path.")
def demo(devices: int | None, scale: float, only: str | None, keep: Path | None) -> int:
    """Train small models under Treadle: resized, compared with FIFO, and on a shared device."""
    if only == "sharing" and keep is not None:
        raise InvalidInputError(
            "--keep is for the journal of the part that resizes, which --only sharing leaves out"
        )
    if find_spec("torch") is None:
        raise InvalidInputError(
            "the demo trains with PyTorch, which is not installed; pip install 'treadle[demo]'"
        )
    gpus = 0 if devices else gpu_count()
    shown = True
    if only != "sharing":
        shown = _resizing(gpus, devices, scale, keep)
    if only is None:
        click.echo("")
    if only != "resizing":
        shown = _sharing(gpus) and shown
    return 0 if shown else 1


def _slots() -> int:
    """CPU slots: no more than there are cores, so that each slot adds speed."""
    return max(2, min(SLOTS_MAX, _cores()))


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _resizing(gpus: int, devices: int | None, scale: float, keep: Path | None) -> bool:
    """Jobs of different lengths on several devices; whether all of them succeeded."""
    on_gpus = devices is None and gpus > 1
    slots = min(SLOTS_MAX, gpus) if on_gpus else devices or _slots()
    policy = POLICY.partition("+")[0]
    kind = "GPUs" if on_gpus else "CPU slots; one GPU alone cannot be resized" if gpus else ""
    click.echo(
        f"Treadle on {several(slots, 'device')}, policy {policy}: devices go to the jobs that "
        f"gain most from them,\nand move to others when those gain more.{kind and f' ({kind})'}\n"
    )
    words = ["--gpus", ",".join(map(str, range(slots)))] if on_gpus else ["--devices", str(slots)]
    with own_daemon([*words, "--policy", POLICY]) as scene:
        jobs = _play(scene, acts(slots, scale * (1.0 if on_gpus else pace())))
        journal = _journal(scene.here, keep)
    _compare(jobs, journal, scene.here)
    return all(job.code == 0 for job in jobs.values())


def _sharing(gpus: int) -> bool:
    """Two jobs on one GPU, or on one CPU slot with several cores; False if something went wrong."""
    if not gpus and _cores() < 2:
        click.echo("Two jobs that share a device are not shown: that needs a GPU, or two cores.")
        return True
    device = "GPU 0" if gpus else f"a CPU slot with {several(_cores(), 'core')}"
    click.echo(
        f"Two jobs on one device ({device}): a job joins another once that was seen alone\nfor a "
        "while, if together they are expected to get more done.\n"
    )
    words = ["--gpus", "0"] if gpus else ["--devices", "1"]
    with own_daemon(words) as scene:
        return share(scene)


def _play(scene: Scene, story: tuple[Act, ...]) -> dict[str, JobView]:
    """Submit the jobs, print events until all have ended; returns the jobs by id."""
    here = scene.here
    names: dict[str, str] = {}
    after, left = 0, list(story)
    trains_s = inf  # since when the first job trains: the others wait for that
    while left or any(not job.state.ended for job in _views(here, names).values()):
        views = _views(here, names).values()
        if trains_s == inf and any(job.progress or job.state.ended for job in views):
            trains_s = scene.passed_s
        while left and (not names or scene.passed_s - trains_s >= left[0].after_s):
            act = left.pop(0)
            answer = here.client.submit(act.request)
            names[answer.id] = act.request.name
            scene.say(f"{act.request.name:<8} submitted: {act.said}")
        after = _print_events(scene, names, after)
        here.pause(scene.every_s)
    _print_events(scene, names, after)
    found = _views(here, names)
    for job in found.values():
        if job.state is not State.SUCCEEDED:
            tail = here.client.log(job.id).text.splitlines()[-LINES:]
            scene.say("\n".join([f"{job.name:<8} printed last:", *map(plain, tail)]))
    return found


def _print_events(scene: Scene, names: Mapping[str, str], after: int) -> int:
    """Print new events; returns where to continue."""
    page = scene.here.client.events(after=after, limit=500)
    for event in page.events:
        if text := _event_text(event, names):
            scene.say(text)
    return page.next


def _views(here: Session, names: Mapping[str, str]) -> dict[str, JobView]:
    return {identity: here.client.job(identity).job for identity in names}


def _event_text(event: EventView, names: Mapping[str, str]) -> str:
    """An event in the demo's words; empty for events that would only distract."""
    name = f"{names.get(event.job, ''):<8}"
    allocation = event.body.get("allocation")
    count = len(allocation["devices"]) if isinstance(allocation, dict) else 0
    size = several(count, "device")
    match event.kind:
        case "Start":
            return f"{name} starts on {size}"
        case "Change":
            return f"{name} is to be resized to {size}"
        case "JobStarted" if event.body.get("stall_s") is not None:
            stall_s = event.body["stall_s"]
            return f"{name} is resized without a restart: it stood still for {stall_s:.2f} s"
        case "Stop":
            return f"{name} is preempted"
        case "AttemptEnded" if event.body.get("how") == "exited":
            code = event.body.get("code")
            return f"{name} finished" if code == 0 else f"{name} failed with exit code {code}"
        case "AttemptEnded" if event.body.get("how") == "replaced":
            return f"{name} was stopped, and starts again"
        case _:
            return ""


def _journal(here: Session, keep: Path | None) -> Journal:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "demo.journal"
        path.write_bytes(b"".join(here.client.journal()))
        if keep is not None:
            keep.write_bytes(path.read_bytes())
        return read(path)


def _compare(jobs: Mapping[str, JobView], journal: Journal, here: Session) -> None:
    """Print the completion times of this run, and those that FIFO would have had.

    FIFO is simulated, so the simulation is checked first: with the orders that were given here it
    must lead to the times that were seen here.
    """
    lives = recorded(journal)
    live = _completions(lives)
    off = error(live, _completions(with_own_orders(journal)))
    doubt = _far_off(off)
    fifo: dict[str, float] = {}
    if not doubt:
        found = simulated(journal, "fifo")
        doubted = contradicted(lives, found)
        if doubted is None:
            fifo = _completions(found)
        else:
            doubt = _contradiction(jobs[doubted].name, found[doubted], lives[doubted])
    rows = []
    for identity, job in jobs.items():
        if identity not in live:
            rows.append([job.name, str(job.state), "", ""])
            continue
        resizes = str(job.resizes) if job.resizes else ""
        rows.append([job.name, _s(live[identity]), _s(fifo.get(identity)), resizes])
    done = [identity for identity in jobs if identity in live and identity in fifo]
    ratio = ""
    if done:
        mean = sum(live[job] for job in done) / len(done)
        first = sum(fifo[job] for job in done) / len(done)
        rows.append(["average", _s(mean), _s(first), ""])
        ratio = f" FIFO's average is {first / mean:.1f} times Treadle's."
    title = "measured under Treadle" if doubt else "measured under Treadle and simulated under FIFO"
    click.echo(f"\nCompletion times, {title}:\n")
    heads = [Column("JOB"), *(Column(title, right=True) for title in _TITLES)]
    click.echo(table(heads, rows, width=here.width))
    click.echo(doubt or _checked(off, ratio))


def _completions(lives: Mapping[str, Lived]) -> dict[str, float]:
    return {job: lived.completion_s for job, lived in lives.items()}


def _far_off(off: float) -> str:
    """Why nothing is compared, if the model does not lead to the times of the run itself."""
    if off <= CLOSE:
        return ""
    how_far = f"{off:.0%}" if off < inf else "more than can be said"
    return (
        "\nNo comparison: simulated with the orders that were given here, these jobs end "
        f"{how_far} off\nthe measured times on average, and {CLOSE:.0%} is the limit."
    )


def _contradiction(name: str, found: Lived, lived: Lived) -> str:
    would = f"{name} would run {_s(found.run_s)} on as many\ndevices as it can use"
    return (
        f"\nNo comparison: by the speeds that were measured, {would}, and it took "
        f"{_s(lived.run_s)} here,\nat times with fewer: they were measured too briefly."
    )


def _checked(off: float, ratio: str) -> str:
    """What the comparison is worth."""
    return (
        f"\nThe check: simulated with the orders that were given here, these jobs end {off:.0%} "
        f"off the\nmeasured times on average (limit {CLOSE:.0%}).{ratio}\nFIFO (first come, first "
        "served) gives each job its largest size and never changes it."
    )


def _s(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f} s"

"""Part two of `treadle demo`: a job joins a running one on its device, and both are measured.

Speeds are those that the jobs' own steps show. The two jobs are the same training, so what one does
alone is what the other would.
"""

from collections.abc import Mapping
from typing import NamedTuple

import click

from treadle.cli.show.table import Column, table
from treadle.cli.study.demo_scene import Scene
from treadle.demo.story import twins
from treadle.wire.jobs import JobView, State
from treadle.wire.machine import EventView

SETTLES_S = 2.0  # after a change of company, before speeds are compared
TOGETHER_S = 10.0
GIVE_UP_S = 150.0
_TITLES = ("ALONE", "TOGETHER", "KEEPS")


class Point(NamedTuple):
    """A job was at this step then."""

    at: float
    step: float


class Steps:
    """When each job was first seen at which step, and when it started."""

    def __init__(self) -> None:
        self.points: dict[str, list[Point]] = {}
        self.started_at: dict[str, float] = {}

    def see(self, job: JobView, now: float) -> None:
        if job.state is State.RUNNING:
            self.started_at.setdefault(job.id, now)
        known = self.points.setdefault(job.id, [])
        if job.progress is not None and (not known or job.progress.step > known[-1].step):
            known.append(Point(now, job.progress.step))

    def per_s(self, job: str, from_at: float, to_at: float) -> tuple[float, float] | None:
        """Steps a second in that time, and over how many seconds that was seen; None: not seen."""
        inside = [point for point in self.points.get(job, []) if from_at <= point.at <= to_at]
        if len(inside) < 2 or not inside[-1].at > inside[0].at:
            return None
        seconds = inside[-1].at - inside[0].at
        return (inside[-1].step - inside[0].step) / seconds, seconds


class Measured(NamedTuple):
    """Steps a second of the first job alone, and of both together."""

    alone: float
    together: Mapping[str, float]


class Unmeasured(NamedTuple):
    """Why there are no speeds to show, and whether that is what Treadle is meant to do."""

    because: str
    meant: bool


def share(scene: Scene) -> bool:
    """Show two jobs that share a device, or why they are not to; False if something went wrong."""
    left, names, after, steps = list(twins()), dict[str, str](), 0, Steps()
    measured, shared = None, False
    while measured is None and scene.passed_s < GIVE_UP_S:
        while left and scene.passed_s >= left[0].after_s:
            act = left.pop(0)
            answer = scene.here.client.submit(act.request)
            names[answer.id] = act.request.name
            scene.say(f"{act.request.name:<8} submitted: {act.said}")
        page = scene.here.client.events(after=after, limit=500)
        after = page.next
        for event in page.events:
            shared = shared or bool(_company(event))
            if text := told(event, names):
                scene.say(text)
        for job in names:
            steps.see(scene.here.client.job(job).job, scene.passed_s)
        measured = None if left else compared(steps, *names)
        scene.here.pause(scene.every_s)
    if measured is None:
        details = scene.here.client.why(list(names)[-1]).details if names else ()
        found = unmeasured(dict(details).get("sharing", ""), shared=shared)
        click.echo(f"\n{found.because}")
        return found.meant
    scene.say("both are stopped: enough was seen of them")
    _print(measured, names, scene)
    return True


def compared(steps: Steps, first: str, second: str) -> Measured | None:
    """The speeds, once both have trained together for long enough."""
    joined_at, begun = steps.started_at.get(second), steps.points.get(second)
    if joined_at is None or not begun:
        return None
    alone = steps.per_s(first, SETTLES_S, joined_at)
    if alone is None:
        return None
    together: dict[str, float] = {}
    for job in (first, second):
        seen = steps.per_s(job, begun[0].at + SETTLES_S, float("inf"))
        if seen is None or seen[1] < TOGETHER_S:
            return None
        together[job] = seen[0]
    return Measured(alone[0], together)


def told(event: EventView, names: Mapping[str, str]) -> str:
    """What happened, in a line; empty if it is not worth one."""
    name = names.get(event.job, "")
    match event.kind:
        case "Start" if others := _company(event):
            met = " and ".join(names.get(other, other) for other in others)
            return f"{name:<8} joins {met} on its device; nothing is stopped"
        case "Start":
            return f"{name:<8} starts, and is watched while it is alone"
        case "Stop":
            return f"{name:<8} is stopped"
        case "AttemptEnded":
            return f"{name:<8} ended with exit code {event.body.get('code')}"
        case _:
            return ""


def _company(event: EventView) -> tuple[str, ...]:
    """The jobs on whose devices a job is started."""
    match event.body.get("beside"):
        case [*others] if event.kind == "Start":
            return tuple(map(str, others))
        case _:
            return ()


def unmeasured(why: str, *, shared: bool) -> Unmeasured:
    """why: the second job cannot share yet; empty if it can."""
    if shared:
        text = "They shared the device, but not for long enough to measure their speeds."
        return Unmeasured(text, meant=False)
    if why:
        return Unmeasured(f"They did not share the device: {why}.", meant=False)
    return Unmeasured("On this machine they run faster one after the other.", meant=True)


def _print(measured: Measured, names: Mapping[str, str], scene: Scene) -> None:
    rows = [
        [names[job], f"{measured.alone:.1f}/s", f"{now:.1f}/s", f"{now / measured.alone:.0%}"]
        for job, now in measured.together.items()
    ]
    heads = [Column("JOB"), *(Column(title, right=True) for title in _TITLES)]
    click.echo("\nSteps a second on one device, measured:\n")
    click.echo(table(heads, rows, width=scene.here.width))
    total = sum(measured.together.values()) / measured.alone
    click.echo(f"\nTogether they get {total:.2f} times as much done as one alone.")

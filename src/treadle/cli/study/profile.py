"""`treadle profile -- COMMAND`: run a job for a while at several sizes, and say what it needs.

It starts a daemon of its own in a temporary folder and stops it at the end; a running daemon is not
touched, and its jobs are not known to the profile: run it on an idle machine.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import click

from treadle.cli.live.job_options import present_folder
from treadle.cli.live.session import Session, echo_json, json_option
from treadle.cli.live.stage_text import seconds_text
from treadle.cli.numbers import Number
from treadle.cli.show.table import Column, pairs, table
from treadle.cli.show.wording import plain
from treadle.cli.study.demo_scene import Scene, gpu_count, own_daemon
from treadle.cli.study.demo_sharing import Steps
from treadle.client.jobfile import Draft, complete
from treadle.core.errors import InvalidInputError
from treadle.core.job_report import STAGES, bottleneck
from treadle.core.wording import devices, gib_text, several, share
from treadle.engines.node.mps import PROGRAM
from treadle.study.profiling import TYPICAL, Measured, good_company, worth_having
from treadle.wire.history import LoadView
from treadle.wire.jobs import JobDetail, JobRequest, State

STARTS_S_MAX = 600.0  # a job that makes no step for so long is given up
LINES_OF_OUTPUT = 8


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--devices", type=click.IntRange(1, 64), help="Number of CPU slots, instead of GPUs.")
@click.option(
    "--sizes", metavar="1,2,4", help="Numbers of devices to try; default: 1, 2, 4, ... all."
)
@click.option(
    "--seconds",
    type=Number(2, 3600),
    default=20.0,
    show_default=True,
    help="How long it is measured at each size, from its first step.",
)
@json_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def profile(
    devices: int | None, sizes: str | None, seconds: float, as_json: bool, command: tuple[str, ...]
) -> int:
    """Measure what a training job needs: speed by size, stages, memory, jobs to share a GPU with.

    A script that uses treadle.train is tried at several sizes and says where its time goes. Any
    other script is run on one device, and needs to print its steps.

    \b
    treadle profile -- python train.py --epochs 3
    """
    gpus = 0 if devices else gpu_count()
    many = devices or gpus or len(os.sched_getaffinity(0))
    wanted = _sizes(sizes, many)
    words = ["--devices", str(many)] if not gpus else []
    runs: list[Measured] = []
    with own_daemon([*words, "--policy", "fifo?share=off", "--no-warm"]) as scene:
        for size in wanted:
            run, can = _measure(scene, command, size, seconds, quiet=as_json)
            runs.append(run)
            if run.problem or ("size" not in can and not sizes):
                break
        width = scene.here.width
    if as_json:
        echo_json(_document(runs, on_gpus=bool(gpus)))
    else:
        click.echo(_text(runs, wanted, width=width, on_gpus=bool(gpus)))
    return 1 if any(run.problem for run in runs) else 0


def _sizes(text: str | None, many: int) -> list[int]:
    if text is None:
        doubled = [1 << power for power in range(many.bit_length()) if 1 << power < many]
        return [*doubled, many]
    try:
        found = sorted({int(word) for word in text.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1 or found[-1] > many:
        raise InvalidInputError(
            f"--sizes is {plain(text)!r}; expected numbers from 1 to {many} with commas between"
        )
    return found


# -- measuring ------------------------------------------------------------------------------------


def _measure(
    scene: Scene, command: Sequence[str], size: int, seconds: float, *, quiet: bool
) -> tuple[Measured, Sequence[str]]:
    """Run it at one size for a while; and what it can change while it runs."""
    here = scene.here
    where = several(size, "device")
    identity = here.client.submit(_request(command, size)).id
    steps, begun_s, first_s, started_s = Steps(), scene.passed_s, None, None
    while True:
        detail = here.client.job(identity)
        view, now_s = detail.job, scene.passed_s
        steps.see(view, now_s)
        if started_s is None and view.state is not State.PENDING:
            started_s = now_s
        if first_s is None and view.progress is not None and view.progress.step > 0:
            first_s = now_s
            _say(scene, f"on {where}: it makes steps", quiet=quiet)
        late = first_s is None and now_s - begun_s > STARTS_S_MAX
        if view.state.ended or late or (first_s is not None and now_s - first_s >= seconds):
            break
        here.pause(scene.every_s)
    problem = _problem(here, detail)
    looked_s = None if first_s is None or started_s is None else first_s - started_s
    found = _found(here, detail, size, steps, looked_s)
    if not view.state.ended:
        here.client.cancel(identity)
        # The next size is not measured beside it.
        while not here.client.job(identity).job.state.ended:
            here.pause(scene.every_s)
    if not problem and found.steps_per_s is None:
        problem = "it reported no steps: print them, or use treadle.report or treadle.train"
        if first_s is not None:
            problem = f"it ended too soon; let it train for {seconds:.0f} s or longer"
    speed = "" if found.steps_per_s is None else f"{found.steps_per_s:.4g} steps/s"
    _say(scene, f"on {where}: {problem or speed}", quiet=quiet)
    return replace(found, problem=problem), detail.changes


def _request(command: Sequence[str], size: int) -> JobRequest:
    draft = Draft()
    draft.fields |= {"command": tuple(command), "devices": str(size), "retries": 0}
    draft.fields["name"] = f"profile-{size}"
    return complete(draft, os.environ, workdir=present_folder())


def _found(
    here: Session, detail: JobDetail, size: int, steps: Steps, looked_s: float | None
) -> Measured:
    """looked_s: when its first step was seen here, which the daemon may know better.

    What it used before that says nothing of its training.
    """
    identity, progress = detail.job.id, detail.job.progress
    stages = {} if progress is None else dict(progress.stages)
    points = steps.points.get(identity, [])
    per_s = steps.per_s(identity, points[0].at, points[-1].at) if points else None
    history = [each for each in here.client.job_history(identity).attempts if each.points]
    points_of = history[-1].points if history else ()
    most = history[-1].most if history else LoadView()
    known_s = history[-1].first_step_s if history else None
    first_step_s = looked_s if known_s is None else known_s
    from_at = (detail.job.started_at or 0.0) + (first_step_s or 0.0)
    trained = [point for point in points_of if point.at + point.span_s / 2 >= from_at]
    step_s = stages.get("step", 0.0)
    speed = 1.0 / step_s if step_s > 0 else None if per_s is None else per_s[0]
    return Measured(
        size=size,
        steps_per_s=speed,
        seconds=0.0 if per_s is None else per_s[1],
        first_step_s=first_step_s,
        stages=stages,
        busy=_mean([(point.mean.busy, point.span_s) for point in trained]),
        gpu_memory_gib=most.device_memory_gib,
        memory_gib=most.memory_gib,
        cores=_mean([(point.mean.cores, point.span_s) for point in trained]),
    )


def _mean(parts: Sequence[tuple[float | None, float]]) -> float | None:
    """Over time, of what was measured."""
    known = [(value, span_s) for value, span_s in parts if value is not None]
    total_s = sum(span_s for _, span_s in known)
    return sum(value * span_s for value, span_s in known) / total_s if total_s > 0 else None


def _problem(here: Session, detail: JobDetail) -> str:
    view = detail.job
    if not view.state.ended or view.state is State.SUCCEEDED:
        return ""
    piece = here.client.log(view.id)
    lines = [plain(line) for line in piece.text.splitlines()[-LINES_OF_OUTPUT:]]
    code = "" if view.code is None else f" with exit code {view.code}"
    return "\n".join([f"it ended as {view.state.value}{code}; its last lines:", *lines])


def _say(scene: Scene, text: str, *, quiet: bool) -> None:
    if not quiet:
        scene.say(text)


# -- saying ---------------------------------------------------------------------------------------


def _document(runs: Sequence[Measured], *, on_gpus: bool) -> dict[str, Any]:
    company = good_company(runs[0].busy, mps=_mps()) if on_gpus else []
    return {
        "runs": [asdict(run) for run in runs],
        "bottleneck": bottleneck(runs[0].stages) or None,
        "sizes_worth_having": worth_having(runs),
        "shares_well_with": [{**asdict(one), "together": one.together} for one in company],
    }


def _mps() -> bool:
    return shutil.which(PROGRAM) is not None


def _text(runs: Sequence[Measured], wanted: Sequence[int], *, width: int, on_gpus: bool) -> str:
    good = [run for run in runs if run.steps_per_s]
    if not good:
        return ""
    parts = [table(_COLUMNS, [_row(run, good[0]) for run in good], width=width)]
    rows = [("bottleneck", _bottleneck(good[0].stages))]
    if len(good) > 1:
        worth = worth_having(good)
        rows.append(("worth having", _worth(worth)))
    elif len(wanted) > 1 and not runs[0].problem:
        rows.append(("sizes", "only 1: the script does not use treadle.train"))
    if on_gpus:
        rows += _company(good[0].busy)
    return "\n".join([*parts, "", pairs([row for row in rows if row[1]], width=width)])


def _worth(sizes: Sequence[int]) -> str:
    *others, last = map(str, sizes)
    return f"{', '.join(others)} or {devices(int(last))}" if others else devices(int(last))


# Columns without any value are not shown.
_TITLES = ("DEVICES", "STEPS/S", "SPEED-UP", "STEP", "FIRST STEP", "DATA", "PREPARE", "COMPUTE")
_COLUMNS = [
    Column(title, right=True)
    for title in (*_TITLES, "SYNC", "BUSY", "GPU MEMORY", "MEMORY", "CORES")
]


def _row(run: Measured, first: Measured) -> list[str]:
    assert run.steps_per_s
    assert first.steps_per_s
    return [
        str(run.size),
        f"{run.steps_per_s:.4g}",
        f"{run.steps_per_s / first.steps_per_s:.2f}",
        seconds_text(1.0 / run.steps_per_s),
        "" if run.first_step_s is None else f"{run.first_step_s:.1f} s",
        *(seconds_text(run.stages[name]) if name in run.stages else "" for name in STAGES),
        "" if run.busy is None else share(run.busy),
        "" if run.gpu_memory_gib is None else gib_text(run.gpu_memory_gib),
        "" if run.memory_gib is None else gib_text(run.memory_gib),
        "" if run.cores is None else f"{run.cores:.2g}",
    ]


def _bottleneck(stages: Mapping[str, float]) -> str:
    largest = bottleneck(stages)
    if not largest:
        return "unknown: the script does not say where its time goes; treadle.train does"
    return f"{STAGES[largest]}, {share(min(1.0, stages[largest] / stages['step']))} of a step"


def _company(busy: float | None) -> list[tuple[str, str]]:
    if busy is None:
        return [("sharing", "unknown: how busy its GPU is was not measured")]
    found = good_company(busy, mps=_mps())
    if not found:
        return [("sharing", f"none of {len(TYPICAL)} usual kinds: it keeps its GPU busy by itself")]
    lines = [
        f"{one.kind}: predicted {one.together:.2f} times the work of one after the other, "
        f"{one.keeps:.2f} of its own speed (each ±{one.doubt:.2f})"
        for one in found
    ]
    names = ["shares well with", *[""] * (len(lines) - 1)]
    return list(zip(names, lines, strict=True))

"""Jobs as rows of a table: the columns that there are, the usual ones, and those of a sweep."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from treadle.cli.live.job_rows import (
    FIRST,
    array_counts,
    devices_text,
    end_text,
    has_run,
    name_of,
    progress_text,
    reason_text,
    short_reason,
    state_colour,
    wait_text,
    waited_s,
)
from treadle.cli.show.clock import moment_text
from treadle.cli.show.table import Column, room, table
from treadle.cli.show.wording import command_text, plain, width_of
from treadle.core.wording import did_you_mean, digits, several, short_span, sizes
from treadle.wire.jobs import JobView


class JobColumn(NamedTuple):
    column: Column
    text: Callable[[JobView, float], str]
    key: Callable[[JobView, float], float | str | None]  # None goes last


def _share(view: JobView) -> float | None:
    progress = view.progress
    return progress.step / progress.total if progress and progress.total else None


def _loss(view: JobView) -> float | None:
    return None if view.progress is None else view.progress.loss


def _per_s(view: JobView) -> float | None:
    return None if view.progress is None else view.progress.per_s


def _eta(view: JobView) -> float | None:
    return view.end.high_s if view.end and not view.state.ended else None


def _number(view: JobView) -> float:
    head, _, index = view.id.partition("_")
    return int(head) + (int(index) + 1) / 1e8 if index else float(int(head))


def _field(column: Column, name: str) -> JobColumn:
    """A field of a job, shown as it is."""

    def value(view: JobView, now: float) -> Any:  # noqa: ARG001
        return getattr(view, name)

    return JobColumn(column, lambda v, now: plain(str(value(v, now))), value)


def _at(title: str, name: str) -> JobColumn:
    """A moment of a job."""

    def text(view: JobView, now: float) -> str:
        at: float | None = getattr(view, name)
        return "" if at is None else moment_text(at, now)

    return JobColumn(Column(title), text, lambda v, _: getattr(v, name))


def _text(column: Column, text: Callable[[JobView], str]) -> JobColumn:
    """A text, which it is also ordered by."""
    return JobColumn(column, lambda v, _: text(v), lambda v, _: text(v))


JOB_COLUMNS: dict[str, JobColumn] = {
    "id": JobColumn(Column("ID"), lambda v, _: plain(v.id), lambda v, _: _number(v)),
    "name": JobColumn(Column("NAME", least=7), lambda v, _: name_of(v), lambda v, _: v.name),
    "user": _field(Column("USER", least=6), "user"),
    "tenant": _field(Column("TENANT"), "tenant"),
    "state": _text(Column("STATE", colour=state_colour), lambda v: v.state.value),
    "devices": JobColumn(
        Column("DEVICES", least=7), lambda v, _: devices_text(v), lambda v, _: len(v.devices)
    ),
    "on": _text(Column("ON", least=8), lambda v: plain(", ".join(v.devices))),
    "plan": JobColumn(Column("PLAN"), lambda v, _: plain(v.plan), lambda v, _: v.plan or None),
    "priority": _field(Column("PRIORITY", right=True), "priority"),
    "done": JobColumn(
        Column("DONE", right=True), lambda v, _: progress_text(v), lambda v, _: _share(v)
    ),
    "eta": JobColumn(Column("ETA", right=True), lambda v, _: end_text(v), lambda v, _: _eta(v)),
    "loss": JobColumn(
        Column("LOSS", right=True),
        lambda v, _: "" if _loss(v) is None else f"{_loss(v):.4g}",
        lambda v, _: _loss(v),
    ),
    "speed": JobColumn(
        Column("STEPS/S", right=True),
        lambda v, _: digits(per_s) if (per_s := _per_s(v)) else "",
        lambda v, _: _per_s(v),
    ),
    "wait": JobColumn(
        Column("WAIT", right=True), lambda v, now: short_span(waited_s(v, now)), waited_s
    ),
    "ran": JobColumn(
        Column("RAN", right=True),
        lambda v, _: short_span(v.running_s) if has_run(v) else "",
        lambda v, _: v.running_s,
    ),
    "submitted": _at("SUBMITTED", "submitted_at"),
    "started": _at("STARTED", "started_at"),
    "ended": _at("ENDED", "ended_at"),
    "exit": JobColumn(
        Column("EXIT", right=True),
        lambda v, _: "" if v.code is None else str(v.code),
        lambda v, _: v.code,
    ),
    "attempts": _field(Column("ATTEMPTS", right=True), "attempts"),
    "command": _text(Column("COMMAND", least=16), lambda v: command_text(v.command)),
    "reason": _text(Column("REASON", least=16), reason_text),
}


_USUAL = ("id", "name", "user", "state", "devices", "done", "eta", "wait", "ran", "reason")
_COLUMNS = tuple(JOB_COLUMNS[name].column for name in _USUAL)
_WAIT, _REASON = _USUAL.index("wait"), _USUAL.index("reason")
SENTENCE_MIN = 30  # a sentence cut to fewer columns says too little


def job_table(
    views: Sequence[JobView],
    now: float,
    *,
    width: int,
    expand: bool = False,
    user: bool = True,
    colour: bool = False,
) -> str:
    """One row per job, and one per array unless expanded."""
    groups = _groups(views, expand=expand)
    rows = []
    for group in groups:
        row = _job_row(group[0], now) if len(group) == 1 else _array_row(group, now)
        rows.append(row if user else [*row[:2], "", *row[3:]])
    space = room(_COLUMNS, rows, _REASON, width=width)
    for group, row in zip(groups, rows, strict=True):
        # Half a sentence says less than the cause in one word.
        if width_of(row[_REASON]) > space < SENTENCE_MIN and len(group) == 1:
            row[_REASON] = short_reason(group[0])
    return table(_COLUMNS, rows, width=width, colour=colour)


def _job_row(view: JobView, now: float) -> list[str]:
    row = [JOB_COLUMNS[name].text(view, now) for name in _USUAL]
    row[_WAIT] = wait_text(view, now)  # That it waited once matters no more.
    return row


def _groups(views: Sequence[JobView], *, expand: bool) -> list[list[JobView]]:
    """Members of an array together, at the position of the first."""
    found: dict[str, list[JobView]] = {}
    for view in views:
        key = f"a{view.array}" if view.array and not expand else f"j{view.id}"
        found.setdefault(key, []).append(view)
    return list(found.values())


def _array_row(group: list[JobView], now: float) -> list[str]:
    first = min(group, key=lambda view: FIRST.index(view.state))
    indices = sorted(view.index for view in group if view.index is not None)
    shown = f"[{sizes(indices).replace('..', '-')}]" if indices else ""
    shown = shown if len(shown) <= 12 else f"[{several(len(indices), 'job')}]"
    held = sum(len(view.devices) for view in group)
    return [
        f"{plain(group[0].array)}{shown}",
        name_of(first),
        plain(first.user),
        first.state.value,
        ("" if first.state.ended else f"{held}/") + f"{len(group)}x{sizes(first.sizes)}",
        "",
        "",
        short_span(max([waited_s(view, now) for view in group if not has_run(view)], default=None)),
        short_span(max([view.running_s for view in group if has_run(view)], default=None)),
        array_counts(group),
    ]


_SWEEP = ("state", "loss", "speed", "done", "eta", "ran", "reason")


class Look(NamedTuple):
    """What a listing shows, and in which order."""

    columns: tuple[str, ...] = ()  # empty: the usual table
    sort: str = ""  # empty: scheduling order
    reverse: bool = False

    def ordered(self, views: Sequence[JobView], now: float) -> list[JobView]:
        if not self.sort:
            return list(views)
        key = JOB_COLUMNS[self.sort].key

        def rank(view: JobView) -> tuple[float, str]:
            value = key(view, now)
            return (0.0, value) if isinstance(value, str) else (float(value or 0), "")

        known = [view for view in views if key(view, now) is not None]
        unknown = [view for view in views if key(view, now) is None]
        return [*sorted(known, key=rank, reverse=self.reverse), *unknown]

    def table(self, views: Sequence[JobView], now: float, *, width: int, colour: bool) -> str:
        """One row per job, with the columns that were asked for."""
        wanted = [JOB_COLUMNS[name] for name in self.columns]
        rows = [[each.text(view, now) for each in wanted] for view in views]
        shown = [each.column._replace(always=True) for each in wanted]
        return table(shown, rows, width=width, colour=colour)


def sweep_table(views: Sequence[JobView], now: float, *, width: int, colour: bool) -> str:
    """One row per job: in what it differs from the others, and how far it is; empty: in nothing."""
    names = dict.fromkeys(name for view in views for name in view.arguments)
    differ = [name for name in names if len({view.arguments.get(name) for view in views}) > 1]
    given = [[plain(str(view.arguments.get(name, ""))) for name in differ] for view in views]
    if not differ and not all(view.array and view.progress for view in views):
        return ""
    known = [JOB_COLUMNS[name] for name in _SWEEP]
    rows = [
        [plain(view.id), *own, *(each.text(view, now) for each in known)]
        for view, own in zip(views, given, strict=True)
    ]
    titles = [Column(plain(name).upper() if " " in name else plain(name)) for name in differ]
    columns = [Column("ID"), *titles, *(each.column for each in known)]
    return table(columns, rows, width=width, colour=colour)


def chosen_columns(text: str | None) -> tuple[str, ...]:
    return tuple(_known(word, "--columns") for word in (text or "").split(",") if word.strip())


def chosen_order(text: str | None) -> tuple[str, bool]:
    """The column, and whether the order is reversed."""
    if not text:
        return "", False
    return _known(text.removeprefix("-"), "--sort"), text.startswith("-")


def _known(word: str, option: str) -> str:
    name = word.strip().lower()
    if name not in JOB_COLUMNS:
        known = did_you_mean(name, JOB_COLUMNS) or f"; known: {', '.join(JOB_COLUMNS)}"
        raise click.UsageError(f"{option}: there is no column {plain(word.strip())!r}{known}")
    return name

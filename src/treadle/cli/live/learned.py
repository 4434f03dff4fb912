"""`treadle learned`: what Treadle knows of a script from its runs, and forgetting it."""

from collections.abc import Iterable

import click

from treadle.cli.live.session import Session, echo_json, json_option, note, session
from treadle.cli.show.table import Column, pairs, table
from treadle.cli.show.wording import plain
from treadle.core.wording import devices, digits, gib_text, listed, several, share, short_span, span
from treadle.models.learning.commands import in_words
from treadle.models.learning.kinds import FOLDER
from treadle.wire.learned import (
    ForgetRequest,
    LearnedArgument,
    LearnedEffect,
    LearnedPage,
    LearnedScript,
    LearnedSharing,
    LearnedSpan,
)

NAMED_MAX = 8  # values or arguments in one line
_COLUMNS = (
    Column("SCRIPT", always=True, least=12),
    Column("USER"),
    Column("ID", always=True),
    Column("RUNS ALONE", right=True, always=True),
    Column("CUT OFF", right=True),
    Column("LENGTH", right=True, always=True),
    Column("GPU MEMORY", right=True),
    Column("BUSY", right=True),
)
_FIGURES = {"length": "length", "step": "a step", "memory": "GPU memory"}


@click.command()
@click.argument("script", required=False, default="")
@click.option("--user", default="", metavar="NAME", help="Only of this user's scripts.")
@click.option("--forget", is_flag=True, help="Forget all of SCRIPT; the next run is the first.")
@json_option
def learned(script: str, user: str, forget: bool, as_json: bool) -> None:
    """Show what was learned of scripts, or everything of SCRIPT: a name or an id.

    With it: length, speed and memory by argument, what a restart costs, and with whom it shared.
    """
    here = session()
    if forget:
        _forget(here, script, user, as_json=as_json)
        return
    page = here.client.learned(script, user=user)
    if as_json:
        echo_json(page)
    elif script and not page.scripts:
        whose = f" of {user}" if user else ""
        raise click.UsageError(
            f"nothing was learned of a script {script!r}{whose}; treadle learned lists them"
        )
    elif script:
        click.echo("\n\n".join(_whole(each, here.width) for each in page.scripts))
    elif page.scripts:
        click.echo(_list(page, here))
    else:
        of_them = f"nothing was learned of scripts of {plain(user)}"
        click.echo(of_them if user else "no run has ended yet")


def _forget(here: Session, script: str, user: str, *, as_json: bool) -> None:
    if not script:
        raise click.UsageError("--forget needs a SCRIPT; treadle learned lists them")
    done = here.client.forget_script(ForgetRequest(script=script, user=user))
    if as_json:
        echo_json(done)
    else:
        click.echo(f"forgot {listed([plain(each) for each in done.scripts], NAMED_MAX)}")


def _list(page: LearnedPage, here: Session) -> str:
    users = {each.user for each in page.scripts}
    rows = [
        [
            plain(each.script),
            plain(each.user) if len(users) > 1 else "",
            each.id,
            f"{each.runs:,}",
            f"{each.cut_off:,}" if each.cut_off else "",
            "" if each.length_s is None else _range(each.length_s),
            "" if each.memory_gib is None else gib_text(each.memory_gib.most),
            _busy(each.busy),
        ]
        for each in page.scripts
    ]
    shown = table(_COLUMNS, rows, width=here.width, colour=here.colour)
    if page.others:
        note(f"and {several(page.others, 'more script')}; --user names whose")
    return shown


def _whole(known: LearnedScript, width: int) -> str:
    runs = f"{several(known.runs, 'run')} alone on {'its' if known.runs == 1 else 'their'} devices"
    cut_off = f", {several(known.cut_off, 'other')} cut off" if known.cut_off else ""
    head = f"{plain(known.script)} of {plain(known.user)} ({known.id}): {runs}{cut_off}\n"
    speeds = (f"{digits(each.steps_per_s)}/s on {devices(each.devices)}" for each in known.speeds)
    rows = [
        ("length", _seconds(known.length_s)),
        ("steps", ", ".join(speeds)),
        ("GPU memory", "" if known.memory_gib is None else _gib(known.memory_gib)),
        ("busy", _busy(known.busy)),
        ("cores", _cores(known.cores)),
        ("start", "" if known.start_s is None else f"{span(known.start_s)} to the first step"),
        ("restart", "" if known.restart_s is None else span(known.restart_s)),
        ("frozen", _there_and_back(known.freeze_s, known.thaw_s)),
        ("suspended", _there_and_back(known.suspend_s, known.resume_s)),
        ("resize", "" if known.resize_s is None else span(known.resize_s)),
        *_arguments(known.arguments),
        *(("shared with", _sharing(each)) for each in known.sharing),
    ]
    return head + pairs(rows, width=width)


def _arguments(known: Iterable[LearnedArgument]) -> list[tuple[str, str]]:
    """Those that matter each in a line; the others named by what is known of them."""
    rows: list[tuple[str, str]] = []
    tried: list[str] = []
    always: list[str] = []
    for each in known:
        name = plain(in_words(each.name))
        if any(effect.figure == "steps" for effect in each.effects):
            rows.append((name, "says how many steps there are"))
        elif each.effects:
            effects = "; ".join(_effect(effect) for effect in each.effects)
            rows.append((name, f"{effects} ({several(each.values, 'value')} tried)"))
        else:
            (tried if each.values > 1 else always).append(name)
    always = [name for name in always if name != FOLDER]
    return [
        *rows,
        ("no effect seen", listed(tried, NAMED_MAX)),
        ("never varied", listed(always, NAMED_MAX)),
    ]


def _effect(effect: LearnedEffect) -> str:
    """length x2 if doubled; a step x0.5 for small, x2 for large."""
    figure = _FIGURES.get(effect.figure, effect.figure)
    if effect.slope is not None:
        return f"{figure} x{digits(2.0**effect.slope)} if doubled"
    if effect.factors:
        values = [
            f"x{digits(factor)} for {plain(value) or 'none'}"
            for value, factor in sorted(effect.factors.items(), key=lambda one: one[1])
        ]
        return f"{figure} {listed(values, NAMED_MAX)}"
    return f"{figure} differs"


def _sharing(known: LearnedSharing) -> str:
    other = f"{plain(known.script)} of {plain(known.user)}"
    if known.never:
        return f"{other}: never again, they ran out of memory together"
    how = ", with MPS" if known.mps else ""
    if known.together is None:
        return other + how
    return f"{other}{how}: both did {known.together:.3g} times what one does alone"


def _there_and_back(out_s: float | None, back_s: float | None) -> str:
    """in 4 s, goes on in 1.5 s"""
    parts = (("in", out_s), ("goes on in", back_s))
    return ", ".join(f"{how} {_took(took_s)}" for how, took_s in parts if took_s is not None)


def _took(seconds: float) -> str:
    return span(seconds) if seconds >= 10 else f"{max(0.001, seconds):.1g} s"


def _range(known: LearnedSpan) -> str:
    low, high = short_span(known.least), short_span(known.most)
    return low if low == high else f"{low}-{high}"


def _busy(known: LearnedSpan | None) -> str:
    """Nothing of one that hardly used its devices."""
    return "" if known is None or known.most < 0.005 else share(known.middle)


def _seconds(known: LearnedSpan | None) -> str:
    if known is None:
        return ""
    least, most = span(known.least), span(known.most)
    return most if least == most else f"{least} to {most}, half of them within {span(known.middle)}"


def _cores(known: LearnedSpan | None) -> str:
    return "" if known is None or known.most < 0.05 else f"{known.most:.2g} beside each device"


def _gib(known: LearnedSpan) -> str:
    low, high = gib_text(known.least), gib_text(known.most)
    return f"{high} at the peak" if low == high else f"{low} to {high} at the peak"

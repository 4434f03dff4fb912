"""What was learned of scripts, for people; and forgetting it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from treadle.control.api.context import Context
from treadle.control.api.thinking import Thinking
from treadle.control.loop import Rider, on_disk
from treadle.journal.facts import ScriptForgotten
from treadle.models.learning.kind_history import History
from treadle.models.learning.kinds import Kind, named_like, owner_name, script_id
from treadle.models.learning.summary import Argument, Span, Summary, figures, summary
from treadle.store.rows import Batch
from treadle.wire.learned import (
    ForgetRequest,
    Forgotten,
    LearnedArgument,
    LearnedEffect,
    LearnedPage,
    LearnedScript,
    LearnedSharing,
    LearnedSpan,
    LearnedSpeed,
)
from treadle.wire.machine import Role, Who
from treadle.wire.problems import NotAllowedError, UnknownNameError

LISTED_MAX = 500
DETAILED_MAX = 8  # scripts of one name
VALUES_MAX = 12  # of an argument that are listed

Scripts = Mapping[Kind, History]
Pair = tuple[str, str, bool, float | None]  # of the record of company


class Lessons:
    """Each is made beside the event loop."""

    def __init__(self, context: Context, thinking: Thinking) -> None:
        self._context = context
        self._thinking = thinking

    async def learned(self, who: Who, script: str = "", user: str = "") -> LearnedPage:
        """Of all scripts in short, or everything of those with this name or id."""
        record = self._context.belief.record
        seen, parted = (record.pairs(), record.parted()) if script else ([], [])

        def page(context: Context) -> LearnedPage:
            known = _called(context, script, user)
            if not script:
                rows = [_in_short(kind, known[kind]) for kind in [*known][:LISTED_MAX]]
                return LearnedPage(scripts=tuple(rows), others=len(known) - len(rows))
            everything = dict(context.learner.profiles.scripts())
            rows = [
                _in_full(
                    _in_short(kind, known[kind]),
                    summary(known[kind]),
                    _sharing(kind, everything, seen, parted),
                    open_to_all=not _theirs(who, kind),
                )
                for kind in [*known][:DETAILED_MAX]
            ]
            return LearnedPage(scripts=tuple(rows), others=len(known) - len(rows))

        return await self._thinking.about(("learned", who, script, user, record.revision), page)

    async def forget(self, who: Who, request: ForgetRequest) -> Forgotten:
        """Forget all that was learned of a script, whatever became of its jobs in company too."""
        script, user = request.script, request.user or who.user
        known = _called(self._context, script, user) if script else {}
        if not known:
            raise UnknownNameError(
                f"nothing was learned of a script {script[:80]!r} of {user}",
                hint="treadle learned lists them",
            )
        if not all(_theirs(who, kind) for kind in known):
            raise NotAllowedError(f"only {user} or an admin may have it forgotten")
        names = {named_like(kind, history.name) for kind, history in known.items()}
        fact = ScriptForgotten(script, who.user, (*known, *sorted(names)))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._context.commit.tell([fact], Rider(Batch(), done))
        self._context.belief.record.forget(lambda shape: _kind_in(shape) in known)
        with self._context.condition.orders.one():
            await on_disk(done, self._context.condition)
        return Forgotten(scripts=tuple(history.name for history in known.values()))


def _called(context: Context, script: str, user: str) -> Scripts:
    """Scripts with this id, or this name, of a user; empty: any."""
    name = PurePosixPath(script).name
    return {
        kind: history
        for kind, history in context.learner.profiles.scripts()
        if (not script or script == script_id(kind) or history.name in (script, name))
        and (not user or user == owner_name(kind))
    }


def _theirs(who: Who, kind: Kind) -> bool:
    return who.role is Role.ADMIN or who.user == owner_name(kind)


def _in_short(kind: Kind, history: History) -> LearnedScript:
    found, costs = figures(history), history.costs
    return LearnedScript(
        id=script_id(kind),
        script=history.name,
        user=owner_name(kind),
        runs=history.ended,
        cut_off=sum(not run.whole for run in history.seen),
        length_s=_span(found.length_s),
        memory_gib=_span(found.memory_gib),
        busy=_span(found.busy),
        cores=_span(found.cores),
        restart_s=costs.restart_s,
        resize_s=costs.resize_s,
        start_s=costs.start_s,
        freeze_s=costs.freeze_s,
        thaw_s=costs.thaw_s,
        suspend_s=costs.suspend_s,
        resume_s=costs.resume_s,
    )


def _in_full(
    brief: LearnedScript, found: Summary, sharing: tuple[LearnedSharing, ...], *, open_to_all: bool
) -> LearnedScript:
    """open_to_all: values of variables are left out."""
    speeds = sorted(found.measured.steps.items())
    arguments = (_argument(each, hidden=open_to_all) for each in found.arguments)
    return replace(
        brief,
        speeds=tuple(LearnedSpeed(devices=size, steps_per_s=1.0 / s) for size, s in speeds),
        arguments=tuple(arguments),
        sharing=sharing,
    )


def _argument(found: Argument, *, hidden: bool) -> LearnedArgument:
    hidden = hidden and found.name.startswith("$")
    effects = (
        LearnedEffect(
            figure=effect.figure,
            share=effect.share,
            slope=effect.slope,
            factors=None if hidden or effect.factors is None else _most(effect.factors),
        )
        for effect in found.effects
    )
    return LearnedArgument(name=found.name, values=found.values, effects=tuple(effects))


def _most(factors: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(factors.items(), key=lambda one: one[1])[:VALUES_MAX])


def _sharing(
    kind: Kind, known: Scripts, seen: Sequence[Pair], parted: Sequence[tuple[str, str]]
) -> tuple[LearnedSharing, ...]:
    """With which other scripts it was on a device, the best first."""
    done: dict[tuple[Kind, bool], float | None] = {}  # as last seen, whatever their arguments
    for one, other, mps, together in seen:
        for mine, beside in ((one, other), (other, one)):
            if _kind_in(mine) == kind:
                whom = _kind_in(beside), mps
                done[whom] = together if together is not None else done.get(whom)
    found = [
        LearnedSharing(
            script=_name(beside, known), user=owner_name(beside), together=together, mps=mps
        )
        for (beside, mps), together in done.items()
    ]
    apart = {
        _kind_in(beside)
        for pair in parted
        for mine, beside in {pair, pair[::-1]}
        if _kind_in(mine) == kind
    }
    never = [
        LearnedSharing(script=_name(beside, known), user=owner_name(beside), never=True)
        for beside in sorted(apart)
    ]
    return (*sorted(found, key=lambda one: -(one.together or 0.0)), *never)


def _kind_in(shape: str) -> Kind:
    """The script's kind: a shape is it and a digest of words (kinds.py)."""
    return shape.rpartition(" ")[0]


def _name(kind: Kind, known: Scripts) -> str:
    return known[kind].name if kind in known else "a forgotten script"


def _span(found: Span | None) -> LearnedSpan | None:
    return None if found is None else LearnedSpan(**found._asdict())

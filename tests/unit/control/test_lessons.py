"""What was learned of scripts is shown to people, and forgotten where they say so."""

from pathlib import Path

import pytest

from tests.unit.control.memory import HOME, ME, OTHER, Bench, lesson, play_on, playing
from tests.unit.control.test_control_on_memory import rebuilt
from treadle.core.allocation import Pause
from treadle.core.cluster import Node
from treadle.engines.memory_world import MemoryWorld
from treadle.models.change_costs import go_on_s, pause_s
from treadle.models.learning.kinds import by_command
from treadle.wire.job_orders import JobsOrder, Verb
from treadle.wire.jobs import JobRequest, State
from treadle.wire.learned import ForgetRequest, LearnedScript
from treadle.wire.problems import NotAllowedError, NotFoundError


def teach(here: Bench, owner: str = ME.user) -> None:
    """A sweep: the length is in proportion to the epochs, and the seed is nothing to it."""
    for epochs in (2, 4, 8, 16):
        for seed in (1, 2):
            words = ("python", "train.py", "--epochs", str(epochs), "--seed", str(seed))
            alike = by_command(owner, "", words, folder=HOME, env={"LR": str(seed)})
            lesson(here.live.context.learner.profiles, alike, 1, 10.0 * epochs + 0.1 * seed)


async def known(here: Bench, script: str = "", user: str = "") -> tuple[LearnedScript, ...]:
    return (await here.live.learned(OTHER, script, user)).scripts


@playing()
async def test_a_script_is_shown_with_the_arguments_that_matter(here: Bench) -> None:
    teach(here)
    (brief,) = await known(here)
    assert (brief.script, brief.user, brief.runs) == ("train.py", ME.user, 8)
    assert brief.length_s is not None
    assert (brief.length_s.least, brief.length_s.most) == (20.1, 160.2)
    assert not brief.arguments
    for name in ("train.py", f"{HOME}/train.py", brief.id):
        (whole,) = await known(here, name)
        first, *others = whole.arguments
        assert first.name == "--epochs"
        assert first.values == 4
        assert [effect.figure for effect in first.effects] == ["length"]
        assert first.effects[0].slope == pytest.approx(1.0, abs=0.05)
        assert {each.name for each in others if not each.effects} >= {"--seed", "$LR"}
    assert not await known(here, "train.py", OTHER.user)


@playing()
async def test_values_of_variables_are_their_users_alone(here: Bench) -> None:
    profiles = here.live.context.learner.profiles
    for size in ("small", "large") * 5:
        env = {"SIZE": size}
        alike = by_command(ME.user, "", ("python", "train.py"), folder=HOME, env=env)
        lesson(profiles, alike, 1, 10.0 if size == "small" else 90.0)
    for who, seen in ((ME, True), (OTHER, False)):
        (whole,) = (await here.live.learned(who, "train.py")).scripts
        (effect,) = next(each for each in whole.arguments if each.name == "$SIZE").effects
        assert (effect.factors is not None) is seen


def test_a_script_is_forgotten_for_good(tmp_path: Path) -> None:
    """Also after a restart of the daemon, and where the journal is replayed."""
    there = MemoryWorld.of(Node("here", 1, "none"))
    record = [f"{ME.user}//@a x", f"{ME.user}//@b x"]

    async def before(here: Bench) -> None:
        teach(here)
        teach(here, OTHER.user)
        assert len(await known(here)) == 2
        here.live.context.belief.record.observe(record, 1.0, 0.8, mps=False)
        with pytest.raises(NotAllowedError):
            await here.live.forget_script(OTHER, ForgetRequest(script="train.py", user=ME.user))
        with pytest.raises(NotFoundError):
            await here.live.forget_script(ME, ForgetRequest(script="other.py"))
        done = await here.live.forget_script(ME, ForgetRequest(script="train.py"))
        assert done.scripts == ("train.py",)
        assert here.live.context.belief.record.pairs(), "of other scripts"
        assert not rebuilt(here).learner.profiles.scripts()

    async def after(here: Bench) -> None:
        (left,) = await known(here)
        assert left.user == OTHER.user
        words = ("python", "train.py", "--epochs", "2", "--seed", "1")
        dry = await here.live.dry_run(ME, JobRequest(command=words))
        assert dry.length is not None
        assert not dry.length.known

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)


@playing()
async def test_with_whom_a_script_shared_is_shown(here: Bench) -> None:
    teach(here)
    profiles, company = here.live.context.learner.profiles, here.live.context.belief.record
    other = by_command(OTHER.user, "", ("python", "eval.py"), folder=HOME)
    lesson(profiles, other, 1, 5.0)
    mine = by_command(ME.user, "", ("python", "train.py"), folder=HOME)
    for together in (1.9, 1.4):  # More was expected of it, as of a node with few cores.
        company.observe([mine.shape, other.shape], 2.0, together, mps=True, together=together)
    (whole,) = await known(here, "train.py")
    (beside,) = whole.sharing
    assert (beside.script, beside.user, beside.mps) == ("eval.py", OTHER.user, True)
    assert beside.together == 1.4
    company.keep_apart(mine.shape, other.shape)
    (whole,) = await known(here, "train.py")
    assert [each.never for each in whole.sharing] == [False, True]
    await here.live.forget_script(OTHER, ForgetRequest(script="eval.py"))
    (whole,) = await known(here, "train.py")
    assert not whole.sharing


@playing(devices=1)
async def test_what_its_own_pauses_took_is_learned_and_counts_in_decisions(here: Bench) -> None:
    """1. It is suspended in 4 s, then in 6 s, and goes on in 1.5 s. 2. It is frozen. 3. A replay
    of the journal has learned the same."""
    context = here.live.context
    job = await here.runs()
    for out_s in (4.0, 6.0):
        await pause_taking(here, job, Pause.SUSPENDED, out_s, 1.5)
    await pause_taking(here, job, Pause.FROZEN, 0.02, 0.01)
    (found,) = await known(here, "forever")
    costs = (found.suspend_s, found.resume_s, found.freeze_s, found.thaw_s)
    assert costs == (5.0, 1.5, 0.02, 0.01)
    spec = context.scheduler.jobs[await here.submit("forever")].spec
    assert pause_s(spec, Pause.SUSPENDED) + go_on_s(spec, Pause.SUSPENDED) == 6.5
    assert rebuilt(here).learner.profiles.scripts() == context.learner.profiles.scripts()


async def pause_taking(here: Bench, job: str, how: Pause, out_s: float, back_s: float) -> None:
    """Pause a job and let it go on, on a machine where that takes so long."""
    here.world.pause_takes_s = out_s, back_s
    await here.live.order(ME, JobsOrder(verb=Verb.PAUSE, ids=(job,), how=how))
    await here.reached(job, State.PAUSED)
    await here.settle()
    await here.live.resume(ME, job)
    await here.reached(job, State.RUNNING)

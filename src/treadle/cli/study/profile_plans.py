"""The execution plans that `treadle profile` tries, and what it says of them."""

from collections.abc import Sequence

from treadle.cli.live.stage_text import seconds_text
from treadle.cli.show.table import Column, table
from treadle.cli.show.wording import plain
from treadle.core.live_plans import PLAN, allows
from treadle.core.plan import Plan
from treadle.core.wording import gib_text
from treadle.study.profiling import Measured, plan_gain

# Of one device, and of several. Plans that split layers have to be tried by their user.
ON_ONE = (Plan(recompute=True), Plan(accumulate=2))
ON_A_GPU = (Plan(offload=True),)
ON_SEVERAL = (Plan(shard="optimizer"), Plan(shard="all"))
SHARE = 0.25  # of the seconds at each size
LEAST_S = 3.0
_COLUMNS = (
    Column("PLAN", least=12),
    *(Column(title, right=True) for title in ("DEVICES", "STEP", "GPU MEMORY", "MEMORY")),
    Column("WORTH HAVING", least=12),
)


def plans_to_try(
    can: Sequence[str], sizes: Sequence[int], *, on_gpus: bool
) -> list[tuple[int, Plan]]:
    """Plans that a script announced, each with the size to try it at.

    sizes: those that were measured, ascending.
    """
    alone = (*ON_ONE, *ON_A_GPU) if on_gpus else ON_ONE
    found = [(1, plan) for plan in alone if 1 in sizes]
    if sizes and sizes[-1] > 1:
        found += [(sizes[-1], plan) for plan in ON_SEVERAL]
    return [(size, plan) for size, plan in found if allows(can, plan)]


def seconds_each(seconds: float) -> float:
    return max(LEAST_S, SHARE * seconds)


def plan_command(command: Sequence[str], plan: Plan) -> tuple[str, ...]:
    """The command under a plan: without its line to a coordinator, the script takes it from here.

    The coordinator knows only plans that a policy chose, and the profile's chooses none.
    """
    return ("env", "-u", "TREADLE_CHANNEL", f"TREADLE_PLAN={plan.text}", *command)


def why_no_plans(can: Sequence[str]) -> str:
    """Why plans were not tried; empty: there are some to try."""
    if PLAN in can:
        return ""
    if can:
        return "none: an unmodified script trains data parallel; treadle.train has others"
    return "unknown: the script does not use treadle.train"


def plan_table(runs: Sequence[Measured], plans: Sequence[Measured], *, width: int) -> str:
    """Step time and memory of each plan, beside data parallel at its size."""
    rows = [
        [
            run.plan or Plan().name,
            str(run.size),
            "" if not run.steps_per_s else seconds_text(1.0 / run.steps_per_s),
            "" if run.gpu_memory_gib is None else gib_text(run.gpu_memory_gib),
            "" if run.memory_gib is None else gib_text(run.memory_gib),
            worth_of(run, runs),
        ]
        for run in [*_plain(runs, plans), *plans]
    ]
    return table(_COLUMNS, rows, width=width)


def _plain(runs: Sequence[Measured], plans: Sequence[Measured]) -> list[Measured]:
    tried = {plan.size for plan in plans}
    return [run for run in runs if run.size in tried]


def worth_of(run: Measured, runs: Sequence[Measured]) -> str:
    """Whether a plan is worth having, in words; runs: data parallel, at several sizes."""
    if run.problem:
        return f"no: {plain(run.problem.splitlines()[-1])}"
    beside = next((each for each in runs if each.size == run.size), None)
    if not run.plan or beside is None:
        return ""
    return plan_gain(run, beside) or "no"

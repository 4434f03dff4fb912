"""A league from its plan to its cells: what is cached is read, the rest is run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from treadle.core.cluster import Cluster
from treadle.league.policy_file import PolicyFile
from treadle.league.processes import Input, Outcome, run_cells
from treadle.league.result_cache import ResultCache, cell_key, file_digest, text_digest
from treadle.league.source_digest import source_digest
from treadle.league.standings import ALL, BLIND, KNOWN, LEARNED, Played
from treadle.league.workload_list import LeagueWorkload
from treadle.policies import registry
from treadle.sim.experiment import policy_text
from treadle.sim.settings import Settings
from treadle.traces.workload import Workload

_KEPT = 2  # workloads in memory
# Beside each policy with its defaults: parameters that are better on some workloads, so that no
# policy looks good because another one has the wrong ones.
VARIANTS = ("muri-l?merge=first",)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run."""

    workloads: Sequence[LeagueWorkload]
    policies: Sequence[str]
    seeds: int = 3
    traces: str = "../shared/traces"
    cpu_limit_s: float = 30.0
    policy_files: Sequence[PolicyFile] = ()
    one_class: bool = False  # rank policies that use lengths beside those that do not
    against: Sequence[str] = ()  # policies to set against the best of the others

    def group(self, cell: "Cell") -> str:
        """The information class of a policy on a workload."""
        if cell.settings.belief == LEARNED:
            return LEARNED
        if self.one_class:
            return ALL
        return BLIND if registry.is_blind(cell.policy) else KNOWN


class Cell(NamedTuple):
    """One run that the plan asks for."""

    workload: LeagueWorkload
    policy: str
    seed: int
    settings: Settings


def cells(plan: Plan) -> list[Cell]:
    """Every run of the plan; those of one workload and seed follow each other."""
    return [
        Cell(one, policy, seed, one.settings(policy, seed))
        for one in plan.workloads
        for seed in one.seeds(plan.seeds)
        for policy in plan.policies
    ]


def play(
    plan: Plan, *, workers: int, cache: ResultCache | None, fresh: bool = False
) -> Iterator[tuple[Played, bool]]:
    """Every cell as it ends, and whether it was read from the cache.

    fresh: run all of them and replace what is cached.
    """
    reading = _Reading(plan)
    keys = _Keys(plan, reading)
    open_cells: list[tuple[Cell, str]] = []
    for cell in cells(plan):
        key = keys.of(cell) if cache is not None else ""
        known = None if cache is None or fresh else cache.find(key, plan.cpu_limit_s)
        if known is None:
            open_cells.append((cell, key))
        else:
            yield _played(plan, cell, known), True
    inputs = [reading.input_of(cell) for cell, _ in open_cells]
    with closing(run_cells(inputs, workers=workers, limit_s=plan.cpu_limit_s)) as running:
        for place, outcome in running:
            cell, key = open_cells[place]
            if cache is not None:
                cache.keep(key, outcome)
            yield _played(plan, cell, outcome), False


def _played(plan: Plan, cell: Cell, outcome: Outcome) -> Played:
    return Played(cell.workload.name, cell.policy, plan.group(cell), cell.seed, outcome)


class _Reading:
    """Reads workloads when their turn comes, each once for the cells that follow each other."""

    def __init__(self, plan: Plan) -> None:
        self._traces = plan.traces
        self._files = tuple(plan.policy_files)
        self._by_name = {one.name: one for one in plan.workloads}
        self.read = lru_cache(maxsize=_KEPT)(self._load)

    def input_of(self, cell: Cell) -> Callable[[], Input]:
        def read() -> Input:
            workload, cluster = self.read(cell.workload.name, cell.seed)
            return Input(workload, cluster, cell.settings, self._files)

        return read

    def _load(self, name: str, seed: int) -> tuple[Workload, Cluster]:
        return self._by_name[name].read(self._traces, seed)


class _Keys:
    """Names of outcomes by content; jobs and source are read once."""

    def __init__(self, plan: Plan, reading: _Reading) -> None:
        self._reading = reading
        self._files = {one.policy: one.path for one in plan.policy_files}
        self._jobs: dict[tuple[str, int], str] = {}
        self._sources: dict[str, str] = {}

    def of(self, cell: Cell) -> str:
        drawn = (cell.workload.name, cell.seed)
        if drawn not in self._jobs:
            workload, cluster = self._reading.read(*drawn)
            self._jobs[drawn] = text_digest(repr((workload.jobs, cluster)))
        costs = cell.settings.restart_cost
        priced = file_digest(Path(costs)) if costs.endswith(".csv") else ""
        return cell_key(self._jobs[drawn], cell.settings, priced, self._source(cell))

    def _source(self, cell: Cell) -> str:
        starts = modules_of(cell.settings, self._files)
        key = "+".join(starts)
        if key not in self._sources:
            self._sources[key] = source_digest("treadle.league.cell", *starts)
        return self._sources[key]


def modules_of(settings: Settings, files: Mapping[str, str]) -> list[str]:
    """Where a run's policy is written, and all that is around it. files: of policies by name."""
    policy, *wrappers = [part.partition("?")[0] for part in registry.parts(policy_text(settings))]
    first = files.get(policy) or registry.factory(policy).__module__
    return [first, *(registry.factory(one, registry.WRAPPER).__module__ for one in wrappers)]

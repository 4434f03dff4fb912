"""The league's workloads: small records, read from TOML.

A file has one `[[workload]]` table for each:

    [[workload]]
    name = "elastic-common"
    trace = "{traces}/common960.csv.gz"   # or generate:poisson?jobs=300&seed={seed}, or a path
    cluster = "8x8"
    elastic = 0.05                        # any setting of a run, see OPTIONS
    why = "one line: what it is there for"

`{traces}` is the folder of trace files, `{seed}` the seed of a generated workload, which is drawn
again for each seed. `every = 25` keeps every 25th job of a trace, `first = 500` the first 500.
"""

import fnmatch
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean, mismatch
from treadle.sim.experiment import fit_to, prepare
from treadle.sim.faults import FaultSettings
from treadle.sim.settings import Settings
from treadle.traces.clusters import cluster
from treadle.traces.load import GENERATE, load
from treadle.traces.workload import Workload

TRACES, SEED = "{traces}", "{seed}"
WORKLOADS_MAX = 1000
FILE_MAX = 1_000_000  # bytes
SEEDS_MAX = 100

# What a workload may set of a run, with the type of each. Where it sets nothing, costs are honest:
# a restart takes 30 s, and crossing nodes or racks slows a job.
_FAULTS = {key: kind for key, kind in get_type_hints(FaultSettings).items() if key != "seed"}
OPTIONS: Mapping[str, Any] = {
    key: kind
    for key, kind in get_type_hints(Settings).items()
    if key not in {"policy", "faults", "seed"}
} | _FAULTS
HONEST: Mapping[str, object] = {
    "restart_cost": "30",
    "effects": "nodes=0.85,racks=0.76",
    "placement": "consolidate",
    "sharing": "tokens",
}
_Count = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class LeagueWorkload:
    """One workload of the league."""

    name: str
    trace: str  # a path or generate:..., with {traces} and {seed} in it
    cluster: str
    why: str  # one line
    every: Annotated[int, msgspec.Meta(ge=1)] = 1  # keep every n-th job
    first: _Count = 0  # keep so many of those; 0: all
    oversize: Literal["error", "skip", "cut"] = "skip"  # jobs larger than the cluster
    seed: _Count = 0  # of the first run; further runs of a generated workload count up
    options: Mapping[str, object] = field(default_factory=dict)  # of a run, see OPTIONS

    @property
    def drawn(self) -> bool:
        """Whether each seed draws other jobs."""
        return self.trace.startswith(GENERATE) and SEED in self.trace

    def seeds(self, count: int) -> list[int]:
        """The seeds of its runs: one of a file, `count` of a generated workload."""
        return [self.seed + number for number in range(count if self.drawn else 1)]

    def source(self, traces: str, seed: int) -> str:
        """The trace as `treadle simulate` takes it."""
        return self.trace.replace(TRACES, traces).replace(SEED, str(seed))

    def missing(self, traces: str) -> str:
        """The file that is not there; empty if it is, or if the workload is generated."""
        source = self.source(traces, self.seed)
        return "" if source.startswith(GENERATE) or Path(source).exists() else source

    def settings(self, policy: str, seed: int) -> Settings:
        """The settings of one run."""
        chosen: dict[str, Any] = {**HONEST, **self.options}
        faults = {key: chosen.pop(key) for key in _FAULTS if key in chosen}
        return Settings(
            policy=policy, seed=seed, faults=FaultSettings(seed=seed, **faults), **chosen
        )

    def check(self) -> None:
        """Raise if its cluster or an option is not one that a run could have."""
        try:
            prepare(
                Workload(self.name, ()), cluster(self.cluster), self.settings("fifo", self.seed)
            )
        except InvalidInputError as error:
            raise InvalidInputError(f"workload {self.name}: {error}") from None

    def read(self, traces: str, seed: int) -> tuple[Workload, Cluster]:
        """Its jobs and its cluster."""
        machines = cluster(self.cluster)
        whole = load(self.source(traces, seed), cluster=machines)
        kept = whole.jobs[:: self.every]
        kept = kept[: self.first] if self.first else kept
        workload = fit_to(replace(whole, jobs=kept), machines, self.oversize)
        if not workload.jobs:
            raise InvalidInputError(f"workload {self.name} contains no jobs to run")
        return workload, machines

    def command(self) -> str:
        """Its options as `treadle simulate` takes them; sampling has no such option."""
        chosen = {k: v for k, v in {**HONEST, **self.options}.items() if v is not False}
        hours = {"node_mtbf_s": "node_mtbf", "node_repair_s": "node_repair"}
        words = []
        for key, value in chosen.items():
            number = isinstance(value, int | float)
            shown = f"{value / 3600:g}" if key in hours and number else str(value)  # type: ignore[operator]
            name = hours.get(key, key.removesuffix("_s")).replace("_", "-")
            words.append(f"--{name}" if value is True else f"--{name} {shown}")
        return " ".join(words)


def standard() -> list[LeagueWorkload]:
    """The workloads that ship with Treadle."""
    text = files("treadle.league").joinpath("standard.toml").read_text(encoding="utf-8")
    return parsed(text, "standard.toml")


def from_file(path: Path) -> list[LeagueWorkload]:
    """The workloads of a user's file."""
    try:
        if path.stat().st_size > FILE_MAX:
            raise InvalidInputError(
                f"{path} is larger than {FILE_MAX:,} bytes; expected a list of workloads"
            )
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidInputError(f"{path} cannot be read: {reason}") from None
    return parsed(text, str(path))


def parsed(text: str, source: str) -> list[LeagueWorkload]:
    """The workloads of a TOML text; an error names the source and the workload."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"{source} is not TOML: {error}") from None
    tables = document.pop("workload", None)
    if not isinstance(tables, list) or not tables or document:
        found = ", ".join(document) or "nothing else"
        raise InvalidInputError(
            f"{source} must have one [[workload]] table for each workload and nothing else; "
            f"found {found if tables else 'no such table'}"
        )
    if len(tables) > WORKLOADS_MAX:
        raise InvalidInputError(f"{source} has more than {WORKLOADS_MAX:,} workloads; cut it")
    return [_record(table, source) for table in tables]


def joined(*lists: Iterable[LeagueWorkload]) -> list[LeagueWorkload]:
    """All workloads; a name that two of them have is an error."""
    found: dict[str, LeagueWorkload] = {}
    for one in (one for some in lists for one in some):
        if one.name in found:
            raise InvalidInputError(f"two workloads are called {one.name}; rename one of them")
        found[one.name] = one
    return list(found.values())


def chosen(workloads: Sequence[LeagueWorkload], names: Sequence[str]) -> list[LeagueWorkload]:
    """The workloads of these names or patterns, such as rigid-*, in this order; without any all."""
    by_name = {one.name: one for one in workloads}
    found: dict[str, LeagueWorkload] = {}
    for name in names:
        matching = fnmatch.filter(by_name, name)
        if not matching:
            raise InvalidInputError(
                f"there is no workload {name!r}{did_you_mean(name, by_name)} "
                "(`treadle league --list` lists them all)"
            )
        found |= {one: by_name[one] for one in matching}
    return list(found.values()) or list(workloads)


def option(key: str, given: object, *, typed: bool = True) -> object:
    """The value of an option; raises InvalidInputError. typed: by a person, as text."""
    try:
        return msgspec.convert(given, OPTIONS[key], strict=not typed)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"{key} is {given!r}: {mismatch(str(error))}") from None


def _record(table: object, source: str) -> LeagueWorkload:
    """A workload's own fields, and beside them the options of its runs."""
    if not isinstance(table, dict):
        raise InvalidInputError(f"{source} has {table!r} for a workload; expected a table")
    where = f"{source}: workload {table.get('name', '')}"
    own = [field.name for field in fields(LeagueWorkload) if field.name != "options"]
    for key in table:
        if key not in own and key not in OPTIONS:
            known = (*own, *OPTIONS)
            raise InvalidInputError(
                f"{where} has no option {key!r}{did_you_mean(key, known)} "
                f"(known: {', '.join(known)})"
            )
    try:
        options = {k: option(k, given, typed=False) for k, given in table.items() if k in OPTIONS}
        return msgspec.convert({**table, "options": options}, LeagueWorkload)
    except (InvalidInputError, msgspec.ValidationError) as error:
        raise InvalidInputError(f"{where}: {mismatch(str(error))}") from None

"""Which mutants to try, and which tests may notice each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tools.mutation.operators import Mutant, Mutants


@dataclass(frozen=True)
class Measured:
    """A test of the unchanged source: how long it took, and which lines of the targets it ran."""

    test: str
    cpu_s: float
    lines: Mapping[str, frozenset[int]]


@dataclass
class Baseline:
    """All tests that pass on the unchanged source."""

    tests: list[Measured] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    on_import: dict[str, frozenset[int]] = field(default_factory=dict)

    def choose(self, mutant: Mutant, budget_s: float) -> list[Measured]:
        """Tests that run the changed lines, up to a budget of CPU time: those in files named after
        the source first, then the quick ones.

        What is evaluated on import has no test of its own: tests may notice that run anything of
        the file or are named after it, and if there is none, every test.
        """
        name = str(mutant.path)
        if mutant.function is not None:
            wanted = set(mutant.span)
            covering = [t for t in self.tests if not wanted.isdisjoint(t.lines.get(name, ()))]
        else:
            stem = mutant.path.stem
            covering = [t for t in self.tests if name in t.lines or stem in t.test] or self.tests
        chosen: list[Measured] = []
        for test in sorted(covering, key=lambda t: _order(t, mutant.path)):
            budget_s -= test.cpu_s
            if budget_s < 0 and chosen:
                break
            chosen.append(test)
        return chosen

    def runs_on_import(self, mutant: Mutant) -> bool:
        """Whether patching the loaded module would come too late."""
        lines = self.on_import.get(str(mutant.path), frozenset())
        return mutant.function is None or not lines.isdisjoint(mutant.span)


def _order(test: Measured, path: Path) -> tuple[bool, bool, float]:
    return path.stem not in test.test, str(path) not in test.lines, test.cpu_s


def sample(paths: Iterable[Path], count: int, seed: int) -> list[tuple[Mutants, Mutant]]:
    """A seeded sample over all mutants of these files, in the order of the files."""
    files = [Mutants(path) for path in paths]
    everything = [(file, mutant) for file in files for mutant in file.found]
    if count >= len(everything):
        return everything
    chosen = Random(seed).sample(range(len(everything)), count)
    return [everything[index] for index in sorted(chosen)]


def sources(folders: Sequence[Path]) -> list[Path]:
    return sorted(path.resolve() for folder in folders for path in folder.rglob("*.py"))

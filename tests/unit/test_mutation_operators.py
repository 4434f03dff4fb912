"""What the mutation run changes in a source file, and what it leaves alone."""

import ast
from pathlib import Path

import pytest
from tools.mutation.operators import Mutants
from tools.mutation.plan import Baseline, Measured, sample

SOURCE = '''
"""A docstring with 1 number."""
LIMIT: int = 3


class Thing:
    def __repr__(self) -> str:
        return f"{1 + 1}"

    @property
    def size(self) -> int:
        return self._size


def inside(values, most=2):
    assert values, "left alone: 7"
    if not values or min(values) < 0:
        raise ValueError(f"left alone {1 + 1}")
    rows = [value for value in values if value]
    rows.sort()
    return rows[:most].copy()
'''


@pytest.fixture
def mutants(tmp_path: Path) -> Mutants:
    path = tmp_path / "thing.py"
    path.write_text(SOURCE)
    return Mutants(path)


def test_every_change_is_named_with_its_line(mutants: Mutants) -> None:
    assert [(mutant.line, mutant.change) for mutant in mutants.found] == [
        (3, "3 to 4"),
        (3, "3 to 2"),
        (12, "return None"),
        (15, "2 to 3"),
        (15, "2 to 1"),
        (17, "negate the condition"),
        (17, "`or` to `and`"),
        (17, "drop `not`"),
        (17, "`<` to `<=`"),
        (17, "`min` to `max`"),
        (17, "0 to 1"),
        (17, "0 to -1"),
        (18, "remove the statement"),
        (19, "drop the filter"),
        (20, "remove the statement"),
        (21, "return None"),
        (21, "drop `.copy()`"),
    ]


def test_a_change_is_made_and_undone(mutants: Mutants) -> None:
    before = ast.unparse(mutants.tree)
    for mutant in mutants.found:
        with mutant.applied():
            assert ast.unparse(mutants.tree) != before
            compile(mutants.tree, "thing.py", "exec")
        assert ast.unparse(mutants.tree) == before


def test_defaults_and_constants_are_evaluated_on_import(mutants: Mutants) -> None:
    on_import = [mutant.change for mutant in mutants.found if mutant.function is None]
    assert on_import == ["3 to 4", "3 to 2", "2 to 3", "2 to 1"]
    assert {mutant.function for mutant in mutants.found} == {None, ("size", 10), ("inside", 15)}


def test_a_sample_depends_on_its_seed_alone(mutants: Mutants) -> None:
    def drawn(seed: int) -> list[int]:
        return [mutant.number for _, mutant in sample([mutants.path], 5, seed)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert len(sample([mutants.path], 999, 1)) == len(mutants.found)


def test_tests_that_run_the_line_are_chosen_the_quick_ones_first(mutants: Mutants) -> None:
    name = str(mutants.path)
    baseline = Baseline(
        [
            Measured("slow", 3.0, {name: frozenset({20})}),
            Measured("quick", 0.1, {name: frozenset({20})}),
            Measured("test_thing", 1.0, {name: frozenset({20})}),
            Measured("elsewhere", 0.1, {name: frozenset({12})}),
        ]
    )
    sort = next(mutant for mutant in mutants.found if mutant.line == 20)

    def chosen(budget_s: float) -> list[str]:
        return [test.test for test in baseline.choose(sort, budget_s)]

    assert chosen(9.0) == ["test_thing", "quick", "slow"]
    assert chosen(2.0) == ["test_thing", "quick"]
    assert chosen(0.1) == ["test_thing"]

"""What every test has in common: how many examples are drawn, and which tests are not of every day.

Markers: `engine` starts real processes, `browser` drives one, `slow` takes long for what it adds to
the inner loop. `make test-fast` leaves all three out; `make test` runs everything.
"""

import pytest
from hypothesis import Phase, settings

settings.register_profile("fast", max_examples=8)
# The same examples for every mutant, and no time spent on making a failure small.
settings.register_profile(
    "mutants",
    max_examples=25,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
)
CAPPED = {"fast", "mutants"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if settings.get_current_profile_name() in CAPPED:
        for item in items:
            _draw_fewer(getattr(item, "obj", None), settings.default.max_examples)


def _draw_fewer(test: object, examples_max: int) -> None:
    """Hold a test that asks for many examples to the profile's number."""
    name = "_hypothesis_internal_use_settings"  # where @settings puts them
    function = getattr(test, "__func__", test)
    asked = getattr(function, name, None)
    if isinstance(asked, settings) and asked.max_examples > examples_max:
        setattr(function, name, settings(asked, max_examples=examples_max))

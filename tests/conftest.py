"""What every test has in common: how many examples are drawn, and which tests are not of every day.

Markers: `engine` starts real processes, `browser` drives one, `slow` takes long for what it adds to
the inner loop. `make test-fast` leaves all three out. What tests/shared.py marks as `thorough` is
skipped but in `make test-thorough`.
"""

import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

# A command in the background of a shell ignores Ctrl-C, and so would every program that a test
# starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = Path(__file__).parent
# Folders and files of one kind, by the beginning of their path.
KINDS = {
    "attack/": "engine",
    "cli/test_cli_demo.py": "engine",
    "cli/test_cli_live_story.py": "engine",
    "cli/test_cli_login.py": "engine",
    "control/test_crash.py": "engine",
    "engines/": "engine",
    "exact/": "slow",
    "on_ray/": "engine",
    "replications/": "slow",
    "reports/test_report_browser.py": "browser",
    "server/test_live_api.py": "engine",
    "server/test_schemathesis": "engine",
    "server/test_tls_daemon.py": "engine",
    "simulation/": "slow",
    "store/test_store_crash.py": "engine",
    "train/": "engine",
    "store/test_store_postgresql.py": "engine",
    "test_before.py": "slow",
}
# A test module that uses something from one of these runs jobs as processes.
PROCESSES = {
    "tests.control.asking",
    "tests.control.daemons",
    "tests.control.living",
    "tests.control.kills",
    "tests.control.storms",
}

# The same examples for the same code, so that a red run is red again; a busy machine is no failure.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")
settings.register_profile("fast", max_examples=8)
# The same examples for every mutant, and no time spent on making a failure small.
settings.register_profile("mutants", max_examples=25, phases=(Phase.explicit, Phase.generate))
# Other examples each time, and more of them; what fails is kept and drawn again.
settings.register_profile(
    "thorough",
    derandomize=False,
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
    print_blob=True,
)
# Folders that one worker runs: on_ray/ has a cluster, attack/ adds users to the machine.
TOGETHER = ("tests/on_ray/", "tests/attack/")
CAPPED = {"fast", "mutants"}
TIMES = {"thorough": 10}  # as many examples as a test asks for


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """One worker runs all tests of a file, which share what they set up."""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False
    made = LoadScopeScheduling(config, log)
    made._split_scope = _scope
    return made


def _scope(nodeid: str) -> str:
    together = [folder for folder in TOGETHER if nodeid.startswith(folder)]
    return together[0] if together else nodeid.partition("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    kinds: dict[Path, str | None] = {}
    for item in items:
        if item.path not in kinds:
            kinds[item.path] = _kind(item)
        kind = kinds[item.path]
        if kind is None and "postgresql" in item.name:
            kind = "engine"
        if kind is not None:
            item.add_marker(kind)
    # What waits for processes first; the many short tests keep all workers busy until the end.
    items.sort(key=lambda item: (not item.nodeid.startswith(TOGETHER), kinds[item.path] is None))
    for function in {getattr(item, "obj", None) for item in items}:  # once, whatever its parameters
        # A state machine's settings are an attribute of its class.
        _draw_as_many(getattr(function, "__self__", None), "settings")
        _draw_as_many(getattr(function, "__func__", function), "_hypothesis_internal_use_settings")


def _kind(item: pytest.Item) -> str | None:
    """The marker of every test of this item's file."""
    name = item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else ""
    for beginning, kind in KINDS.items():
        if name.startswith(beginning):
            return kind
    module = getattr(item, "module", None)
    homes = (
        {getattr(value, "__module__", None) for value in vars(module).values()} if module else set()
    )
    return "engine" if homes & PROCESSES else None


def _draw_as_many(holder: object, name: str) -> None:
    """Hold a test to the profile's number of examples, or multiply what it asks for."""
    asked, profile = getattr(holder, name, None), settings.get_current_profile_name()
    if not isinstance(asked, settings):
        return
    many = asked.max_examples * TIMES.get(profile, 1)
    if profile in CAPPED:
        many = min(many, settings().max_examples)
    if many != asked.max_examples:
        setattr(holder, name, settings(asked, max_examples=many))

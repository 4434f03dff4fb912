"""The exit code of a process that survived a loss, and so ends without the interpreter's teardown.

Each is a real interpreter without torch, since its own end is what is tested.
"""

import subprocess
import sys
from pathlib import Path

import pytest

SURVIVED = (
    "from sys import exit as leave\n"
    "from treadle.train.stop import end_without_teardown\nend_without_teardown()\n"
)
CAUGHT = "import sys\ntry:\n    sys.exit(3)\nexcept SystemExit as end:\n    assert end.code == 3\n"
OWN_HOOK = "import sys\nsys.excepthook = lambda *_: None\n1 / 0\n"
IN_A_THREAD = (
    "import sys, threading\none = threading.Thread(target=sys.exit, args=(3,))\n"
    "one.start()\none.join()\n"
)
# As a warm interpreter runs a script, and as `python -m treadle.train.auto` does.
WARM = """
def main():  # `__main__` is emptied for the script
    import os, sys
    from treadle.engines.node import warm_script
    document = {"argv": ["python", sys.argv[1]], "env": {}, "cwd": os.getcwd(), "cpus": []}
    names = {"__name__": "__main__", "__builtins__": __builtins__}
    task = warm_script.Task(document, names)
    warm_script._set_main(task)
    warm_script.run(task)
main()
"""
AUTO = """
import sys
from types import SimpleNamespace
from treadle.train.auto.__main__ import run
run(SimpleNamespace(install=lambda: None, end=lambda well: None), sys.argv[1:])
"""


def _code(folder: Path, ending: str, runner: str = "") -> int:
    script = folder / "script.py"
    script.write_text(SURVIVED + ending)
    command = [sys.executable, *(["-c", runner] if runner else []), str(script)]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("pass", 0),
        ("1 / 0", 1),
        (OWN_HOOK, 1),
        ("import sys; sys.exit(3)", 3),
        ("exit(3)", 3),
        ("raise SystemExit(3)", 3),
        ("leave(3)", 3),
        ("raise SystemExit('no data')", 1),
        (CAUGHT, 0),
        (IN_A_THREAD, 0),
    ],
)
def test_the_exit_code_is_the_scripts(tmp_path: Path, ending: str, code: int) -> None:
    assert _code(tmp_path, ending) == code


@pytest.mark.parametrize("runner", [WARM, AUTO])
@pytest.mark.parametrize(
    ("ending", "code"), [("raise SystemExit(3)", 3), (CAUGHT, 0), (OWN_HOOK, 1)]
)
def test_what_runs_a_script_sees_a_system_exit(
    tmp_path: Path, runner: str, ending: str, code: int
) -> None:
    assert _code(tmp_path, ending, runner) == code

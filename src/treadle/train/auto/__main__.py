"""`python -m treadle.train.auto [--timeout S] (train.py | -m module) ARGS`: see the package."""

import os
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.train.auto.patches import Watched

USAGE = "usage: python -m treadle.train.auto [--timeout SECONDS] (SCRIPT | -m MODULE) [ARGS ...]"


def main(words: list[str]) -> None:
    timeout_s = 60.0
    if words[:1] == ["--timeout"] and len(words) > 1:
        try:
            timeout_s = float(words[1])
        except ValueError:
            sys.exit(_bad(f"--timeout is {words[1]}; expected a number of seconds"))
        words = words[2:]
    module = words[:1] == ["-m"]
    rest = words[1:] if module else words
    if not rest or (not module and rest[0].startswith("-")):
        sys.exit(_bad(USAGE))
    if not module and not Path(rest[0]).is_file():
        sys.exit(_bad(f"there is no script {rest[0]}; {USAGE}"))
    _own_device()
    # Here: torch is imported after the devices are chosen.
    from treadle.train.auto.patches import Watched  # noqa: PLC0415

    run(Watched(timeout_s=timeout_s), rest, module=module)


def run(watched: "Watched", words: list[str], *, module: bool = False) -> None:
    """Run a script, with its arguments, as Python itself would."""
    watched.install()
    sys.argv = words
    well = False
    try:
        if module:
            watched.folder = sys.path[0] = str(Path.cwd())
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        else:
            watched.folder = sys.path[0] = str(Path(words[0]).resolve().parent)
            runpy.run_path(str(Path(words[0]).absolute()), run_name="__main__")
        well = True
    except SystemExit as end:
        well = not end.code
        raise
    finally:
        watched.end(well=well)


def _own_device() -> None:
    """A script for one device takes the first: it must be this rank's."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if len(visible) > 1 and local < len(visible):
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[local]
        os.environ["LOCAL_RANK"] = "0"


def _bad(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 2


if __name__ == "__main__":
    main(sys.argv[1:])

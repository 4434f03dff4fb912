"""Runs recipes three times each: to the end, until a stop order, and resumed from there.

    python -m tests.train.recipe_runs FOLDER {"recipe.py": RANKS, ...} MODULES...

One process imports the modules once and is forked for each rank of each run.
"""

import importlib
import json
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from treadle.engines.node.environment import free_port

AT_URL = {"ddp.py", "lightning_fit.py"}  # they keep checkpoints through fsspec
STOP_AT = 9  # the step after which the job is asked to stop


def start(recipe: str, rank: int, output: int, env: dict[str, str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.environ.update(env | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
        os.dup2(output, 1)
        sys.argv = [recipe]
        # Kept: to free a model of DDP after its group may hang in gloo's threads.
        _kept = runpy.run_path(recipe, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(recipe: str, ranks: int, folder: Path, *, stop: bool) -> tuple[list[Any], list[int]]:
    """The rows that the run printed, and the exit codes of its ranks."""
    place = f"file://{folder}" if Path(recipe).name in AT_URL else str(folder)
    env = {"TREADLE_CHECKPOINT_DIR": place, "MASTER_ADDR": "127.0.0.1"}
    env |= {"MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks), "GLOO_SOCKET_IFNAME": "lo"}
    reads, writes = os.pipe()
    pids = [start(recipe, rank, writes, env) for rank in range(ranks)]
    os.close(writes)
    rows = []
    with os.fdopen(reads) as lines:
        for line in lines:
            if line.startswith('{"step"'):
                rows.append(json.loads(line))
                if stop and rows[-1]["step"] == STOP_AT:
                    os.kill(pids[-1], signal.SIGTERM)  # the last rank: all must agree
    return rows, [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def three_runs(recipe: str, ranks: int, folder: Path) -> dict[str, Any]:
    found = {}
    for name, kept, stop in (
        ("whole", "a", False),
        ("stopped", "b", True),
        ("resumed", "b", False),
    ):
        rows, codes = run(recipe, ranks, folder / kept, stop=stop)
        found[name] = {"rows": rows, "codes": codes}
    return found


def main() -> None:
    folder, recipes, *modules = sys.argv[1:]
    for name in modules:
        importlib.import_module(name)
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])  # imports more
    found = {
        path: three_runs(path, ranks, Path(folder) / Path(path).stem)
        for path, ranks in json.loads(recipes).items()
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()

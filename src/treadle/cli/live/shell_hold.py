"""The job behind `treadle shell`: it holds the devices while the shell runs in the user's terminal.

Two pipes in a folder of the user's join the two. The job writes `held` open and reads `alive`; the
shell's side does the reverse. The side that ends closes its pipe, and the other notices.
"""

import json
import os
import sys
from pathlib import Path

ENVIRONMENT, ALIVE, HELD = "environment.json", "alive", "held"
_GIVEN = ("TREADLE_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_")  # what an allocation consists of


def main() -> None:
    folder = Path(sys.argv[1])
    env = {name: value for name, value in os.environ.items() if name.startswith(_GIVEN)}
    # The shell's side has opened both ends before this job was submitted.
    with (folder / HELD).open("wb"), (folder / ALIVE).open("rb") as alive:
        made = folder / f"{ENVIRONMENT}.new"
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(env, file)
        made.rename(folder / ENVIRONMENT)
        alive.read()  # until the shell's side has closed it


if __name__ == "__main__":
    main()

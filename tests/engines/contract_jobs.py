"""The jobs of the engines' contract as processes of this machine."""

import sys
from pathlib import Path

from treadle.testing.engine_bench import Commands

UNTIL_RELEASED = 'while test ! -e "$0"; do sleep 0.01; done; '

REPORTER = """
import os, sys, time
from treadle.report import report
report(3, 10, loss=0.5)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
report(10, 10)
"""


def commands(root: Path) -> Commands:
    """What runs the jobs of the contract as processes."""
    flexible = (sys.executable, str(Path(__file__).with_name("flexible.py")), "size")
    return {
        "short": ("true",),
        "long": ("sleep", "86400"),
        "held": ("sh", "-c", UNTIL_RELEASED + 'exit "$(cat "$0")"', str(root / "held")),
        "slow": ("sh", "-c", UNTIL_RELEASED, str(root / "slow")),
        "talker": (
            "sh",
            "-c",
            'echo "rank $RANK one"; ' + UNTIL_RELEASED + "echo two",
            str(root / "talker"),
        ),
        "flood": ("sh", "-c", "printf %8192s"),
        "flexible": flexible,
        "alone": (*flexible, "", "fails"),
        "missing": ("/no/such/program",),
        "reporter": (sys.executable, "-c", REPORTER, str(root / "reporter")),
    }


def released(root: Path, job: str, code: int) -> None:
    """Let a job end that runs until it is released."""
    through = root / f"{job}.new"
    through.write_text(str(code))
    through.rename(root / job)

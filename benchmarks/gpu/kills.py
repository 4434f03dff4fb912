"""Kills of the daemon, fork server, supervisors and ranks while jobs on a GPU pause and go on.

    python benchmarks/gpu/kills.py 50 1            # so many kills, and a seed
    python benchmarks/gpu/kills.py 10 1 --devices 1  # CPU slots: a dry run

As `python -m tests.control.kills`, which says what is looked at, with trainings that keep no
checkpoints and are frozen or suspended at random. The losses of every job that succeeds are those
of a run that nothing disturbed, to the digit.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.control.kills import Run, report, run

from treadle.core.allocation import Pause
from treadle.wire.jobs import JobDetail, JobRequest, State

SCRIPT = Path(__file__).with_name("jobs") / "ballast.py"
DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


@dataclass
class OnGpu(Run):
    """One GPU, and jobs that suspended ones leave room to."""

    devices: int = 1
    at_once: int = 4
    width: int = 2048

    def request(self, name: str) -> JobRequest:
        words = f"{name} $TREADLE_ATTEMPT $RANK"
        training = f"{sys.executable} {SCRIPT} --steps 900 --gib 1 --width {self.width}"
        body = (
            f'echo "start {words}" >> {self.lines}; {training} || exit; '
            f'echo "end {words}" >> {self.lines}'
        )
        return replace(
            super().request(name),
            command=("/bin/bash", "-c", body),
            devices="1",
            env=DETERMINISTIC,
            retries=0,
            exclusive=True,  # Else it is a client of MPS, whose memory cannot be moved.
        )

    def pause(self, job: str) -> None:
        how = self.draw.choice((Pause.FROZEN, Pause.SUSPENDED, Pause.SUSPENDED))
        self.daemon.client.pause(job, how=how)

    def judge(self, details: list[JobDetail]) -> list[str]:
        wrong = super().judge(details)
        logs = {
            one.job.id: self.daemon.client.log(one.job.id).text
            for one in details
            if one.job.state is State.SUCCEEDED
        }
        said: dict[str, list[str]] = {}
        for job, text in logs.items():
            said.setdefault(text, []).append(job)
        if len(said) > 1:
            wrong.append(f"jobs of equal commands said different things: {list(said.values())}")
        return wrong


@dataclass
class OnSlots(OnGpu):
    """The same where torch has no GPU."""

    width: int = 8


def main() -> int:
    slots = sys.argv[3:]
    return report(
        lambda kills, seed: run(kills, seed, OnSlots if slots else OnGpu, slots),
        int(sys.argv[1]),
        int(sys.argv[2]),
    )


if __name__ == "__main__":
    sys.exit(main())

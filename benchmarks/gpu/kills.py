"""Kills of the daemon, fork server, supervisors and ranks while jobs on a GPU pause and go on.

    python benchmarks/gpu/kills.py 50 1              # so many kills, and a seed
    python benchmarks/gpu/kills.py 50 1 --devices 1  # CPU slots: a dry run

As `python -m tests.control.kills`, which says what is looked at, with trainings that keep no
checkpoints and are frozen or suspended at random once they have made a step. The kills are spread
over the time that is left for them; what is left when it is over is killed without a wait. The
losses of every job that succeeds are those of a run that nothing disturbed, to the digit.
"""

import argparse
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.control.kills import Run, begun, report

from treadle.core.allocation import Pause
from treadle.wire.jobs import JobDetail, JobRequest, JobView, State

SCRIPT = Path(__file__).with_name("jobs") / "ballast.py"
DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
LOOK_S = 0.4  # how often the user pauses some jobs and lets others go on


@dataclass
class OnGpu(Run):
    """One GPU, and jobs that suspended ones leave room to."""

    devices: int = 1
    at_once: int = 3
    paused: float = 0.35
    resumed: float = 0.3
    total: int = 50  # kills
    within_s: float = 160.0
    width: int = 4096
    began: float = field(default_factory=time.monotonic)

    def request(self, name: str) -> JobRequest:
        words = f"{name} $TREADLE_ATTEMPT $RANK"
        training = f"{sys.executable} {SCRIPT} --steps 1200 --gib 1 --width {self.width}"
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

    def wait(self) -> None:
        """Until this kill's share of the time is over; meanwhile jobs are paused and go on."""
        share = (self.kills.total() + self.draw.random()) / self.total
        while (left_s := self.began + share * self.within_s - time.monotonic()) > 0:
            time.sleep(min(LOOK_S, left_s))
            self.keep_busy()
            self.meddle()

    def may_pause(self, view: JobView) -> bool:
        """Once it trains: before that nothing of it is on the GPU."""
        return super().may_pause(view) and view.progress is not None

    def pause(self, job: str) -> None:
        how = self.draw.choice((Pause.FROZEN, Pause.SUSPENDED, Pause.SUSPENDED))
        self.daemon.client.pause(job, how=how)

    def judge(self, details: list[JobDetail]) -> list[str]:
        wrong = super().judge(details)
        said: dict[str, list[str]] = {}
        for one in details:
            if one.job.state is State.SUCCEEDED:
                log = self.daemon.client.log(one.job.id).text
                said.setdefault(log, []).append(one.job.id)
        if len(said) > 1:
            wrong.append(f"jobs of equal commands said different things: {list(said.values())}")
        return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--devices", help="CPU slots instead of GPUs, and a smaller network")
    parser.add_argument("--within", type=float, default=160.0, help="seconds for the kills")
    options = parser.parse_args()
    words = () if options.devices is None else ("--devices", options.devices)
    run = begun(options.seed, OnGpu, *words)
    assert isinstance(run, OnGpu)
    run.total, run.within_s = options.kills, options.within
    if words:
        run.width = 256
    return report(run, options.kills)


if __name__ == "__main__":
    sys.exit(main())

"""What the engine asks of the controller: how to launch a job, and what to make of its end."""

import os
from itertools import pairwise
from pathlib import Path, PurePosixPath

from treadle.control.api.tokens import job_token
from treadle.control.jobs.desk import Desk
from treadle.control.jobs.records import JobRecord, attempt_body
from treadle.control.learning.profiles import keys_of
from treadle.control.loop.clock import wall
from treadle.core.allocation import Allocation
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobId
from treadle.engines.launch import Ended, Launch
from treadle.engines.node.folders import Folders, read_status
from treadle.engines.node.output import pieces
from treadle.failures.classifier import classify_ranks
from treadle.failures.retry import LAUNCHING, UNKNOWN
from treadle.failures.rules import RuleTable
from treadle.failures.tail import tail
from treadle.failures.verdict import Exit, Verdict
from treadle.store.rows import AttemptRow
from treadle.wire.jobs import AttemptView, FailureView

STOPPED = "stopped"
LEARN_S = 5.0  # a speed is learned from attempts that ran at least so long
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "mpirun", "horovodrun", "ray")
_LAUNCHER_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
)
_TOLD = {"time-limit": "time-limit", "oom-killed": "oom-killed", "lost": "node-lost"}


class Book:
    """Answers from the desk."""

    def __init__(self, desk: Desk, *, rules: RuleTable, token_key: bytes, address: str) -> None:
        self._desk = desk
        self._rules = rules
        self._token_key = token_key
        self._address = address  # where jobs report

    def launch(self, job: JobId, action: int, allocation: Allocation) -> Launch:
        record = self._desk.records[job]
        mode, count = record.ranks, len(allocation.devices)
        launcher = mode == "auto" and _is_launcher(record.command)
        as_user = os.geteuid() == 0
        left_s = None
        if record.time_limit_s is not None:
            left_s = max(0.01, record.time_limit_s - record.ran_s)
        return Launch(
            job=job,
            attempt=record.launched[action],
            command=record.command,
            workdir=record.workdir,
            ranks=1 if launcher or mode == "one" else count,
            launcher=launcher,
            env=self._environment(record),
            secrets=self._secrets(record),
            uid=record.uid if as_user else None,
            gid=record.gid if as_user else None,
            user=record.owner,
            stop_signal=record.stop_signal,
            grace_s=record.grace_s,
            time_limit_s=left_s,
            resumed=record.attempts > 1,
        )

    def begun(self, job: JobId, action: int, allocation: Allocation) -> tuple[float, float]:
        desk, record = self._desk, self._desk.records[job]
        row = desk.scheduler.jobs[job]
        share = record.paused if row.spec.resumable else 0.0
        desk.meter.begin(job, action, len(allocation.devices), share, desk.clock.now())
        speed = desk.belief.iterations_per_s(row.spec, allocation, ())
        return share * row.spec.iterations, speed

    def done(self, job: JobId) -> float:
        row = self._desk.row(job)
        record = self._desk.records.get(job)
        return 0.0 if row is None or record is None else record.paused * row.spec.iterations

    def ended(self, ended: Ended) -> str:
        desk = self._desk
        record = desk.records.get(ended.job)
        if record is None:
            return ""
        ran_s = self._ran_s(record, ended)
        self._learn(record, ended, ran_s)
        record.paused = self._safe_share(record, ended)
        desk.meter.end(ended.job)
        verdict = self._verdict(ended)
        view = None if verdict is None else _failure(verdict, ended)
        attempt = desk.open.get((ended.job, ended.attempt))
        if attempt is not None:
            self._close(record, attempt, ended, ran_s=ran_s, view=view)
        if view is not None:
            desk.verdicts[ended.job] = view
        record.exit, record.told = ended.code, ended.told
        record.dirty = True
        return "" if verdict is None else verdict.rule

    def catch_up(self, folders: Folders) -> None:
        """After a restart: ends of attempts that others have followed since.

        The controller before had been told of them, and was killed before it wrote that down; the
        engine only tells of the newest attempt of a job again.
        """
        desk = self._desk
        for (job, number), attempt in list(desk.open.items()):
            record = desk.records.get(job)
            if record is None or number >= record.attempts:
                continue
            status = read_status(folders.path(job, number))
            if status is None or not status.ended:
                continue
            ended = Ended(
                job=job,
                attempt=number,
                action=attempt.action,
                code=status.code,
                codes=status.codes,
                told=status.told,
                started_at=status.started_at,
                ended_at=status.ended_at,
                ran_s=status.ran_s,
            )
            began_s = record.began_s  # of the newest attempt
            self._close(record, attempt, ended, ran_s=status.ran_s or 0.0, view=None)
            record.began_s = began_s

    # -- launching ------------------------------------------------------------------------------

    def _environment(self, record: JobRecord) -> dict[str, str]:
        own = {
            "TREADLE_JOB_NAME": record.name,
            "TREADLE_USER": record.owner,
            "TREADLE_TENANT": record.tenant,
            "TREADLE_CHECKPOINT_DIR": str(self._checkpoints(record)),
            "TREADLE_API_URL": self._address,
        }
        if record.member is not None:
            own["TREADLE_ARRAY_INDEX"] = str(record.member)
            own["TREADLE_ARRAY_SIZE"] = str(record.array_size)
            own["TREADLE_ARRAY_ID"] = record.array
        return {**record.env, **own}

    def _secrets(self, record: JobRecord) -> dict[str, str]:
        token = {"TREADLE_JOB_TOKEN": job_token(self._token_key, record.id)}
        # Not asked of the store: it may be out of order just when the job is launched.
        sealed = self._desk.sealed.get(record.id)
        return {**(self._desk.seal.unseal(sealed) if sealed else {}), **token}

    def _checkpoints(self, record: JobRecord) -> Path:
        """Where the job keeps what it resumes from; its user's, and never deleted by us."""
        root = self._desk.root
        folder = root / "checkpoints" / record.id
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.geteuid() == 0 and record.uid:
            # They may pass through on their way to what is theirs, and look at nothing else.
            for passage in (root, folder.parent):
                passage.chmod(0o711)
            gid = -1 if record.gid is None else record.gid
            os.chown(folder, record.uid, gid, follow_symlinks=False)
        return folder

    # -- ends -----------------------------------------------------------------------------------

    def _safe_share(self, record: JobRecord, ended: Ended) -> float:
        """The share of the work that the next attempt can build on."""
        desk = self._desk
        row = desk.row(record.id)
        if row is None or not row.spec.resumable:
            return 0.0
        if ended.told != STOPPED:
            return record.checkpoint or record.paused
        gauge = desk.meter.gauge(record.id)
        if gauge is not None and gauge.total is not None:
            return gauge.seen_share
        return min(0.99, row.iterations_at(desk.clock.now()) / row.spec.iterations)

    def _ran_s(self, record: JobRecord, ended: Ended) -> float:
        """How long the attempt ran. The wall clock may have been set meanwhile, so it is asked
        only where nobody else knows: of a supervisor that was killed."""
        if ended.ran_s is not None:
            return ended.ran_s
        attempt = self._desk.open.get((ended.job, ended.attempt))
        started_at = ended.started_at or (attempt.started_at if attempt else None)
        if started_at is None or record.began_s is None:
            return 0.0
        most_s = max(0.0, self._desk.clock.now() - record.began_s)
        return min(most_s, max(0.0, (ended.ended_at or wall()) - started_at))

    def _close(
        self,
        record: JobRecord,
        attempt: AttemptRow,
        ended: Ended,
        *,
        ran_s: float,
        view: FailureView | None,
    ) -> None:
        ended_at = ended.ended_at or wall()
        started_at = attempt.started_at or ended.started_at
        if started_at is not None:
            # Should somebody have set the clock, its end is right by the clock as it is now.
            started_at = (
                ended_at - ran_s if abs(ended_at - started_at - ran_s) > 1.0 else started_at
            )
            # So short a run may be over before anybody was told that it began.
            record.started_at = record.started_at or max(started_at, record.submitted_at)
            record.ran_s += ran_s
            record.device_s += ran_s * len(attempt.devices)
        record.began_s = None
        closed = AttemptView(
            number=attempt.number,
            devices=attempt.devices,
            started_at=started_at or ended_at,
            ended_at=ended_at,
            code=ended.code,
            told=ended.told,
            failure=view,
        )
        self._desk.attempt(
            attempt._replace(
                busy=self._desk.busyness.taken((attempt.job, attempt.number)),
                started_at=started_at,
                ended_at=ended_at,
                failed=view is not None,
                body=attempt_body(closed),
            )
        )

    def _learn(self, record: JobRecord, ended: Ended, ran_s: float) -> None:
        """How long the whole job takes at this size, if this attempt tells."""
        gauge = self._desk.meter.gauge(record.id)
        if gauge is None or ended.started_at is None:
            return
        keys = keys_of(record.owner, record.model, record.command)
        if ended.code == 0 and not ended.told and record.attempts == 1:
            self._desk.profiles.learn(keys, gauge.size, max(0.01, ran_s))
            return
        speed = gauge.share_per_s()
        if speed is not None and gauge.seen_at - gauge.from_at >= LEARN_S:
            self._desk.profiles.learn(keys, gauge.size, 1.0 / speed)

    def _verdict(self, ended: Ended) -> Verdict | None:
        """Why it failed; None if it did not."""
        if (ended.code == 0 and not ended.told) or ended.told == STOPPED:
            return None
        if ended.error:
            return LAUNCHING["engine-error" if ended.told == "engine-error" else "not-launched"]
        told = _TOLD.get(ended.told, "")
        texts = {}
        for rank in range(len(ended.codes)):
            try:
                newest = pieces(ended.folder, rank)[-1:]
                texts[str(rank)] = [line for piece in newest for line in tail(piece.path)]
            except InvalidInputError:
                continue  # It wrote nothing.
        exits = {"": Exit.of(ended.code, told)}
        verdict = classify_ranks(texts, exits, self._rules)
        return verdict if verdict.rule != "finished" else UNKNOWN


def _is_launcher(command: tuple[str, ...]) -> bool:
    """Whether the command starts the ranks itself."""
    if PurePosixPath(command[0]).name in _LAUNCHERS:
        return True
    return any(
        flag == "-m" and module in _LAUNCHER_MODULES for flag, module in pairwise(command[1:4])
    )


def _failure(verdict: Verdict, ended: Ended) -> FailureView:
    evidence = "" if verdict.evidence is None else verdict.evidence.text
    return FailureView(
        kind=str(verdict.kind),
        rule=verdict.rule,
        sentence=verdict.sentence,
        advice=str(verdict.advice),
        evidence=ended.error or evidence,
    )

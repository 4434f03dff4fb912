"""How to launch a job: its command, environment and secrets, for the engine."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import PurePosixPath

from treadle.control.jobs.elastic_command import elastic_command
from treadle.control.jobs.end_completion import EndCompletion
from treadle.control.jobs.job_table import AttemptKey, JobTable
from treadle.control.jobs.records import JobRecord
from treadle.core.allocation import Allocation, Pause
from treadle.core.cluster import Device
from treadle.core.company import needed_gib, room_gib
from treadle.core.events import AttemptEnded
from treadle.core.job import JobId, JobSpec
from treadle.core.launch import CHECKPOINT_DIR, Launch
from treadle.core.ports import PerformanceModel
from treadle.core.scheduler import Scheduler
from treadle.models.company.belief import TRY_MEMORY
from treadle.store.seal import Seal

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "mpirun", "horovodrun", "ray")
_LAUNCHER_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
)


class Launcher:
    """Answers the engine from the table of jobs."""

    def __init__(
        self,
        jobs: JobTable,
        scheduler: Scheduler,
        belief: PerformanceModel,
        *,
        seal: Seal,
        ends: EndCompletion,
        pending_end: Callable[[JobId], AttemptEnded | None],
        token: Callable[[JobId, str], str],
        address: str,
    ) -> None:
        """pending_end: an end that was reported and is not a record yet.
        token: what a job reports with, by its id and nonce. address: where it reports.
        """
        self._jobs = jobs
        self._scheduler = scheduler
        self._belief = belief
        self._seal = seal
        self._ends = ends
        self._pending_end = pending_end
        self._token = token
        self._address = address

    def launch(self, job: JobId, action: int, allocation: Allocation) -> Launch:
        record = self._jobs.records[job]
        launcher = record.ranks == "auto" and _is_launcher(record.command)
        as_user = os.geteuid() == 0
        ran_s, safe = record.ran_s, record.safe
        if (ended := self._pending_end(job)) is not None:
            more_s, safe = self._ends.expected(ended)
            ran_s += more_s
        left_s = None
        if record.time_limit_s is not None:
            left_s = max(0.01, record.time_limit_s - ran_s)
        known = self._scheduler.jobs[job]
        spec = known.spec
        done = safe * spec.iterations if spec.resumable else 0.0
        if record.pause is not None:  # It goes on where it was.
            done = known.iterations_done
        ranks = rank_count(record, len(allocation.devices))
        number = record.launched[action]
        row = self._jobs.open[AttemptKey(job, number)]
        slurm = self._slurm(record, number, ranks, allocation) if record.slurm else {}
        return Launch(
            job=job,
            attempt=number,
            nonce=row.nonce,
            submission=record.nonce,
            command=elastic_command(record.command) if record.elastic else record.command,
            workdir=record.workdir,
            archive=record.archive,
            ranks=ranks,
            launcher=launcher,
            env={**slurm, **self._environment(record)},
            secrets=self._secrets(record),
            uid=record.uid if as_user else None,
            gid=record.gid if as_user else None,
            user=record.owner,
            stop_signal=record.stop_signal,
            grace_s=record.grace_s,
            time_limit_s=left_s,
            memory_gib=record.memory_gib,
            cpus=record.cpus,
            device_memory_gib=record.gpu_memory_gib or self._left_gib(spec, allocation),
            may_share=self._scheduler.policy.shares and not spec.exclusive,
            warm=record.warm,
            resumed=record.starts > 0 or ended is not None,
            elastic=spec.elastic or len(spec.plans) > 1,
            keeps_checkpoints=spec.resumable
            and CHECKPOINT_DIR not in (*record.env, *record.secrets),
            iterations_done=done,
            iterations_per_s=self._belief.iterations_per_s(spec, allocation, ()),
        )

    def _left_gib(self, spec: JobSpec, allocation: Allocation) -> float | None:
        """What a job of unknown needs may have of the memory of devices where others run.

        If it wants more it runs out of it alone: the others have what they are known to need, or
        as much as it where nothing is known.
        """
        if needed_gib(spec):
            return None
        nodes = self._scheduler.cluster.nodes
        sizes = {node.name: gib for node in nodes if (gib := node.device_memory_gib)}
        left = [
            min(TRY_MEMORY * size, room_gib(size) - sum(map(needed_gib, others)))
            for device in allocation.devices
            if (size := sizes.get(device.node)) and (others := self._others(device, spec.id))
        ]
        return max(1.0, min(left)) if left else None

    def _others(self, device: Device, job: JobId) -> list[JobSpec]:
        rows = self._scheduler.jobs
        names = [*self._scheduler.tenancy.tenants.get(device, {}).values()]
        for name in self._scheduler.paused:
            held = rows[name].allocation
            if held is not None and held.paused is Pause.FROZEN and device in held.devices:
                names.append(name)
        return [rows[other].spec for other in names if other != job]

    def _environment(self, record: JobRecord) -> dict[str, str]:
        own = {
            "TREADLE_JOB_NAME": record.name,
            "TREADLE_USER": record.owner,
            "TREADLE_TENANT": record.tenant,
            "TREADLE_API_URL": self._address,
        }
        if record.elastic:
            own["TREADLE_SIZE_MAX"] = str(record.sizes[-1])
        if record.member is not None:
            own["TREADLE_ARRAY_INDEX"] = str(record.member)
            own["TREADLE_ARRAY_SIZE"] = str(record.array_size)
            own["TREADLE_ARRAY_ID"] = record.array
            if place := record.env.get(CHECKPOINT_DIR):  # Members must not share it.
                own[CHECKPOINT_DIR] = f"{place.rstrip('/')}/{record.member}"
        return {**record.env, **own}

    def _slurm(
        self, record: JobRecord, number: int, ranks: int, allocation: Allocation
    ) -> dict[str, str]:
        """What a script with #SBATCH lines reads, as far as it has a meaning here."""
        nodes = {device.node for device in allocation.devices}
        found = {
            "SLURM_JOB_ID": record.id,
            "SLURM_JOBID": record.id,
            "SLURM_JOB_NAME": record.name,
            "SLURM_JOB_USER": record.owner,
            "SLURM_NTASKS": str(ranks),
            "SLURM_NPROCS": str(ranks),
            "SLURM_JOB_NUM_NODES": str(len(nodes)),
            "SLURM_NNODES": str(len(nodes)),
            "SLURM_RESTART_COUNT": str(max(0, number - 1)),
        }
        there = self._scheduler.cluster.nodes
        if not any(node.has_slots for node in there if node.name in nodes):
            found["SLURM_GPUS"] = str(allocation.size)
        if record.cpus is not None:
            found["SLURM_CPUS_PER_TASK"] = f"{max(1.0, record.cpus):.0f}"
        if record.memory_gib is not None:
            found["SLURM_MEM_PER_NODE"] = f"{record.memory_gib * 1024:.0f}"
        if record.member is not None:
            found["SLURM_ARRAY_JOB_ID"] = record.array
            found["SLURM_ARRAY_TASK_ID"] = str(record.member)
            found["SLURM_ARRAY_TASK_COUNT"] = str(record.array_size)
        return found

    def _secrets(self, record: JobRecord) -> dict[str, str]:
        # The store may be down just when the job is launched, so secrets are kept in memory.
        sealed = self._jobs.sealed.get(record.id)
        token = {"TREADLE_JOB_TOKEN": self._token(record.id, record.nonce)}
        return {**(self._seal.unseal(sealed) if sealed else {}), **token}


def rank_count(record: JobRecord, devices: int) -> int:
    """How many processes the job has on that many devices."""
    one = record.ranks == "one" or (record.ranks == "auto" and _is_launcher(record.command))
    return 1 if one else devices


def _is_launcher(command: tuple[str, ...]) -> bool:
    """Whether the command starts the ranks itself."""
    if PurePosixPath(command[0]).name in _LAUNCHERS:
        return True
    return any(
        flag == "-m" and module in _LAUNCHER_MODULES for flag, module in pairwise(command[1:4])
    )

"""The environment of a rank: torchrun's names, the devices by UUID, Treadle's own, and the user's.

Of the daemon's environment a job gets only the few names that say where programs, homes and
libraries are. What the user set wins, except over the names that give a rank its number and its
devices, and over Treadle's own.
"""

import os
import pwd
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

from treadle.core.allocation import Allocation
from treadle.core.launch import CHECKPOINT_DIR, Launch, Part
from treadle.engines.node.host_shares import Share
from treadle.engines.node.interfaces import interface_of

TAG = "TREADLE_ATTEMPT_TAG"
INHERITED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}
    | {"LD_LIBRARY_PATH", "VIRTUAL_ENV", "CUDA_HOME", "CUDA_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
INHERITED_BY_PREFIX = ("LC_", "CONDA_")
# For jobs of other users: nothing that names the daemon's own files.
FOR_OTHERS = frozenset({"LANG", "LANGUAGE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"})
PATH_FOR_OTHERS = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
HOST = "127.0.0.1"
GLOO = "GLOO_SOCKET_IFNAME"  # the interface over which its ranks are connected

_kept: deque[int] = deque(maxlen=256)  # descriptors of ports given to attempts lately


def free_port(address: str = HOST) -> int:
    """A port of an address of this node for an attempt to listen on.

    It stays bound here, so that no other program gets it before the attempt listens. A server that
    asks for SO_REUSEADDR, as those of torch and most others do, may bind it while none listens.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kept = socket.socket(family, socket.SOCK_STREAM)
    kept.bind((address, 0))  # Without the option: no port that is kept already.
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port = int(kept.getsockname()[1])
    if len(_kept) == _kept.maxlen:
        os.close(_kept.popleft())
    _kept.append(kept.detach())
    return port


def inherited(daemon: Mapping[str, str], *, uid: int | None) -> dict[str, str]:
    """What a job gets of the daemon's environment, and of the password file for other users."""
    if uid is None or uid == os.geteuid():
        return {
            name: value
            for name, value in daemon.items()
            if name in INHERITED or name.startswith(INHERITED_BY_PREFIX)
        }
    found = {n: v for n, v in daemon.items() if n in FOR_OTHERS or n.startswith("LC_")}
    found["PATH"] = PATH_FOR_OTHERS
    with suppress(KeyError):
        entry = pwd.getpwuid(uid)
        found |= {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}
        found["SHELL"] = entry.pw_shell or "/bin/sh"
    return found


def common(
    launch: Launch,
    allocation: Allocation,
    *,
    uuids: Sequence[str],
    tag: str,
    checkpoints: str,
    base: Mapping[str, str],
) -> dict[str, str]:
    """What all ranks of an attempt have in common."""
    plan = plan_of(launch, allocation)
    return {
        **base,
        "PYTHONUNBUFFERED": "1",  # Output should be readable while the job runs.
        CHECKPOINT_DIR: checkpoints,
        **launch.env,
        **launch.secrets,
        **_devices(allocation, uuids),
        **_rendezvous(launch, allocation),
        "TREADLE_JOB_ID": launch.job,
        "TREADLE_ATTEMPT": str(launch.attempt),
        "TREADLE_RESUME": "1" if launch.resumed else "0",
        "TREADLE_GRACE": f"{launch.grace_s:g}",
        **({"TREADLE_PLAN": plan} if plan else {}),
        **(
            {}
            if launch.time_limit_s is None
            else {"TREADLE_TIME_LIMIT": f"{launch.time_limit_s:g}"}
        ),
        TAG: tag,
    }


def plan_of(launch: Launch, allocation: Allocation) -> str:
    """The plan of the whole attempt: the allocation of a part has none."""
    return allocation.plan.text if launch.part is None else launch.part.plan


def _devices(allocation: Allocation, uuids: Sequence[str]) -> dict[str, str]:
    """The devices by UUID. CPU slots have none, and their jobs see no GPU."""
    names = [uuids[device.number] for device in allocation.devices]
    visible = ",".join(name for name in names if name)
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible,
        "NVIDIA_VISIBLE_DEVICES": visible or "void",
        "TREADLE_NUM_DEVICES": str(allocation.size),
        "TREADLE_DEVICES": ",".join(
            name or str(device.number)
            for name, device in zip(names, allocation.devices, strict=True)
        ),
    }


def _rendezvous(launch: Launch, allocation: Allocation) -> dict[str, str]:
    """How ranks find each other. A launcher gets its own defaults and sets the rest itself."""
    part = launch.part
    own = {} if part is None else _place(launch, part)
    if part is None:
        part = Part(
            node_rank=0,
            addresses=(HOST,),
            first_rank=0,
            ranks=launch.ranks,
            world_size=launch.ranks,
            port=free_port(),
        )
    nodes = str(len(part.addresses))
    if launch.launcher:
        return own | {
            "PET_NNODES": nodes,
            "PET_NODE_RANK": str(part.node_rank),
            "PET_NPROC_PER_NODE": str(allocation.size),
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": f"{_in_url(part.master)}:{part.port}",
            "PET_RDZV_ID": launch.job,
        }
    return own | {
        "WORLD_SIZE": str(part.world_size),
        "LOCAL_WORLD_SIZE": str(launch.ranks),
        "ROLE_WORLD_SIZE": str(part.world_size),
        "GROUP_RANK": str(part.node_rank),
        "GROUP_WORLD_SIZE": nodes,
        "MASTER_ADDR": part.master,
        "MASTER_PORT": str(part.port),
        "TORCHELASTIC_RESTART_COUNT": str(launch.attempt - 1),
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": launch.job,
    }


def _place(launch: Launch, part: Part) -> dict[str, str]:
    """What one of several nodes has beside that."""
    found = {
        "TREADLE_NODE_RANK": str(part.node_rank),
        "TREADLE_NUM_NODES": str(len(part.addresses)),
        "TREADLE_NODE_IPS": ",".join(part.addresses),
    }
    # Gloo would listen where the name of the host leads, and that may be loopback.
    interface = interface_of(part.addresses[part.node_rank])
    if interface and GLOO not in launch.env and GLOO not in launch.secrets:
        found[GLOO] = interface
    return found


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def of_rank(launch: Launch, rank: int, share: Share) -> dict[str, str]:
    """What one rank has for itself."""
    found = {
        name: str(share.threads)
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
        if name not in launch.env and name not in launch.secrets
    }
    if not launch.launcher:
        among_all = str(rank if launch.part is None else launch.part.first_rank + rank)
        found |= {"RANK": among_all, "LOCAL_RANK": str(rank), "ROLE_RANK": among_all}
    return found

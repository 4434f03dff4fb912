"""The images of the test cluster, made here: a pause, and one that has nothing but busybox.

The Python of pods is that of this machine: their template mounts it (`agents.py`).
"""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

PAUSE, IMAGE = "treadle.test/pause:1", "treadle.test/agent:1"
BUSYBOX = Path("/bin/busybox")
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
LINKS = {"lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/sbin", "bin": "usr/bin"}
FOLDERS = ("usr", "etc", "root", "tmp", "var/run", "proc", "sys", "dev", "busybox")


def archive(path: Path) -> None:
    """Both images, as `docker save` writes them."""
    layer = _layer()
    digest = hashlib.sha256(layer).hexdigest()
    with tarfile.open(path, "w") as out:
        _add(out, f"{digest}/layer.tar", layer)
        manifest = []
        for name in (PAUSE, IMAGE):
            config = json.dumps(
                {
                    "architecture": MACHINES[platform.machine()],
                    "os": "linux",
                    "config": {"Entrypoint": ["/busybox/busybox", "sleep", "86400"], "Tag": name},
                    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
                }
            ).encode()
            of_it = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(out, of_it, config)
            layers = [f"{digest}/layer.tar"]
            manifest.append({"Config": of_it, "RepoTags": [name], "Layers": layers})
        _add(out, "manifest.json", json.dumps(manifest).encode())


def _layer() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as out:
        for name in FOLDERS:
            found = tarfile.TarInfo(name)
            found.type, found.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            out.addfile(found)
        for name, target in LINKS.items():
            found = tarfile.TarInfo(name)
            found.type, found.linkname = tarfile.SYMTYPE, target
            out.addfile(found)
        _add(out, "busybox/busybox", BUSYBOX.read_bytes(), 0o755)
        _add(out, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
        _add(out, "etc/group", b"root:x:0:\nnogroup:x:65534:\n")
    return made.getvalue()


def _add(out: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    found = tarfile.TarInfo(name)
    found.size, found.mode = len(content), mode
    out.addfile(found, io.BytesIO(content))

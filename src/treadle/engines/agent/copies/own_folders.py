"""Working folders that jobs are given on nodes which do not have the one they were submitted from.

    code/<hash>         what was sent, untouched
    work/<job>-<nonce>  the job's own copy of it, in which it runs and may write

Both are in the node's folder. Only the agent writes in them until one is given to its job.
"""

import os
import shutil
from pathlib import Path

from treadle.engines.agent.copies.incoming import Owner
from treadle.engines.node.checkpoint_records import remove_record


def give(code: Path, own: Path, owner: Owner) -> None:
    """Make a job's own copy of what was sent; it appears at once."""
    own.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    draft = own.with_name(f".{own.name}")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(code, draft, symlinks=True)
    draft.chmod(0o700)
    if os.geteuid() == 0 and owner.uid is not None:
        for passage in (own.parent, own.parent.parent):
            passage.chmod(0o711)  # Its user may pass through, and list nothing.
        gid = -1 if owner.gid is None else owner.gid
        for folder, _, names in os.walk(draft):
            for path in (folder, *(os.path.join(folder, name) for name in names)):  # noqa: PTH118
                os.chown(path, owner.uid, gid, follow_symlinks=False)
        for folder, inner, _ in os.walk(draft):
            for name in inner:
                link = Path(folder, name)
                if link.is_symlink():
                    os.chown(link, owner.uid, gid, follow_symlinks=False)
    draft.rename(own)


def own_folder(root: Path, name: str) -> Path | None:
    """The folder that a job was given on this node, if it was."""
    found = root / "work" / name
    return found if found.is_dir() else None


def discard_own(root: Path, job: str) -> None:
    """The output of a job is removed: its own folder goes with it."""
    for path in (root / "work").glob(f"{job}*"):
        if path.name == job or path.name.startswith(f"{job}-"):
            shutil.rmtree(path, ignore_errors=True)


def keep_newest(folders: Path, count: int) -> None:
    """Remove what was sent, but for the last few."""
    found = [path for path in folders.iterdir() if not path.name.startswith(".")]
    for path in sorted(found, key=lambda path: path.stat().st_mtime_ns)[:-count]:
        shutil.rmtree(path, ignore_errors=True)
        remove_record(path)

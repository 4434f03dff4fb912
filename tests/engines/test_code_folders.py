"""Which files of a working folder are copied to other nodes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

import pytest

from treadle.engines.agent.copies.tree import UncopyableError
from treadle.engines.fleet.copies.code_folders import code_in


def paths(folder: Path) -> list[str]:
    return [entry.path for entry in code_in(folder, None, 1e9).entries]


def filled(folder: Path) -> Path:
    for name in ("train.py", "deep/model.py", "build/large.bin", ".env", "venv/pyvenv.cfg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_without_git_all_but_caches_and_virtual_environments_is_copied(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "pyvenv.cfg").touch()
    assert paths(filled(tmp_path)) == [
        *(".env", "build", "build/large.bin", "deep", "deep/model.py", "train.py")
    ]


def test_what_git_ignores_is_left_out_and_what_is_not_committed_is_not(tmp_path):
    filled(tmp_path)
    (tmp_path / ".gitignore").write_text("build/\n.env\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert paths(tmp_path) == [".gitignore", "deep", "deep/model.py", "train.py"]


def test_the_name_of_code_follows_its_content(tmp_path):
    first = code_in(filled(tmp_path / "a"), None, 1e9).name
    assert code_in(filled(tmp_path / "b"), None, 1e9).name == first
    (tmp_path / "b" / "train.py").write_text("other it")
    assert code_in(tmp_path / "b", None, 1e9).name != first


def test_a_daemon_that_runs_as_root_copies_no_folders_of_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They could put links to other files in place of folders while it reads."""
    folder = filled(tmp_path / "a")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(UncopyableError, match="runs as root"):
        code_in(folder, 1000, 1e9)
    assert code_in(folder, None, 1e9).entries


def test_no_user_is_given_what_another_had_sent(tmp_path, monkeypatch):
    monkeypatch.setattr(
        os, "geteuid", lambda: os.getuid() or 1000
    )  # Root copies no users' folders.
    names = {code_in(filled(tmp_path), uid, 1e9).name for uid in (None, 1001, 1002)}
    assert len(names) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user who may not read")
def test_a_file_that_may_not_be_read_is_said_to_be_that():
    """It has not changed, and to wait for that would not help."""
    here = Path(mkdtemp())
    (here / "private.key").touch(mode=0o600)
    (here / "private.key").write_text("secret")
    here.chmod(0o755)
    code = "import sys; from pathlib import Path; from treadle.engines.agent.copies import tree; "
    code += "entry = tree.listing(Path(sys.argv[1])).entries[0]; import os; os.setuid(65534)\n"
    code += "try: tree.read(Path(sys.argv[1]), entry, 0, 10)\n"
    code += "except tree.UncopyableError as error: print(error)"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, str(here)], capture_output=True, text=True, check=True
        )
    finally:
        shutil.rmtree(here)
    assert done.stdout in {
        f"'private.key' cannot be read by {name}\n" for name in ("nobody", "user 65534")
    }

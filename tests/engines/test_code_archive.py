"""What is packed of a folder of code, and how that is unpacked."""

import io
import os
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from treadle import code_packer
from treadle.code_archive import ArchiveError, packed, unpack
from treadle.code_packer import RefusedError, pack

NAMES = ("train.py", "deep/model.py", "build/large.bin", ".env", "venv/x", "mine/pyvenv.cfg")


def filled(folder: Path) -> Path:
    for name in (*NAMES, "mine/lib/x.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "link").symlink_to("deep/model.py")
    (folder / "out").symlink_to("/etc/passwd")
    (folder / "up").symlink_to("deep/../../x")
    return folder


def listed(folder: Path) -> list[str]:
    content = io.BytesIO()
    pack(folder, 1 << 20, content)
    content.seek(0)
    return tarfile.open(fileobj=content).getnames()


def test_without_git_all_but_environments_and_links_that_lead_out_is_packed(tmp_path):
    found = [".env", "build/large.bin", "deep/model.py", "link", "train.py"]
    assert listed(filled(tmp_path)) == found


def test_what_git_ignores_is_left_out_and_what_is_not_committed_is_not(tmp_path):
    """Also in a repository within it."""
    filled(tmp_path)
    (tmp_path / ".gitignore").write_text("build/\n.env\n")
    inner = filled(tmp_path / "inner")
    (inner / ".gitignore").write_text("deep\nlink\n")
    for folder in (inner, tmp_path):
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "add", "train.py"], check=True)
    (tmp_path / "train.py").unlink()
    own = ["inner/.env", "inner/.gitignore", "inner/build/large.bin", "inner/train.py"]
    assert listed(tmp_path) == [".gitignore", "deep/model.py", *own, "link"]


def test_a_folder_that_git_ignores_is_packed_whole(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("inner/\n")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a").touch()
    assert listed(tmp_path / "inner") == ["a"]


def test_a_folder_above_a_limit_says_what_is_large(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(bytes(3000))
    (tmp_path / "b").write_bytes(bytes(2000))
    with pytest.raises(
        RefusedError, match=r"4.88 KiB in 2 .* most 2 KiB in .* data \(2.93 KiB .*, b "
    ):
        pack(tmp_path, 2048, io.BytesIO())
    monkeypatch.setattr(code_packer, "FILES_MAX", 1)
    with pytest.raises(RefusedError, match=r"in 2 files, and at most 1 MiB in 1 file"):
        pack(tmp_path, 1 << 20, io.BytesIO())


def test_the_same_content_has_the_same_name_and_is_unpacked_as_it_was(tmp_path):
    folder = filled(tmp_path / "a")
    (folder / "train.py").chmod(0o755)
    name = packed(str(folder), tmp_path / "kept")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [name]
    unpack(tmp_path / "kept" / name, tmp_path / "b", uid=None, gid=None)
    there = tmp_path / "b"
    assert os.access(there / "train.py", os.X_OK)
    assert not os.access(there / "deep" / "model.py", os.X_OK)
    assert (there / "link").read_text() == "deep/model.py"
    os.utime(folder / "train.py", (1, 1))
    assert packed(str(folder), tmp_path / "kept") == name
    (folder / "train.py").write_text("other")
    assert packed(str(folder), tmp_path / "kept") != name


def test_what_cannot_be_packed_leaves_nothing(tmp_path):
    with pytest.raises(ArchiveError, match="no folder"):
        packed(str(tmp_path / "none"), tmp_path / "kept")
    (tmp_path / "a").write_bytes(bytes(10))
    with pytest.raises(ArchiveError, match="at most 5 bytes"):
        packed(str(tmp_path), tmp_path / "kept", bytes_max=5)
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "/tmp/x"},
        {"name": "../x"},
        {"name": "a/../../x"},
        {"name": "a", "type": tarfile.SYMTYPE, "linkname": "/etc"},
        {"name": "a", "type": tarfile.SYMTYPE, "linkname": "b/../../x"},
        {"name": "a", "type": tarfile.LNKTYPE, "linkname": "/etc/passwd"},
        {"name": "a", "type": tarfile.CHRTYPE},
        {"name": "a", "type": tarfile.FIFOTYPE},
    ],
)
def test_an_archive_that_leads_out_is_not_unpacked(tmp_path, entry: Mapping[str, str]):
    with tarfile.open(tmp_path / "bad", "w") as archive:
        info = tarfile.TarInfo()
        for name, value in entry.items():
            setattr(info, name, value)
        archive.addfile(info)
    with pytest.raises(ArchiveError):
        unpack(tmp_path / "bad", tmp_path / "b", uid=None, gid=None)
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


def test_nothing_is_written_through_a_link_of_the_archive(tmp_path):
    """1. A link. 2. A file behind it."""
    with tarfile.open(tmp_path / "bad", "w") as archive:
        link, file = tarfile.TarInfo("a"), tarfile.TarInfo("a/x")
        link.type, link.linkname = tarfile.SYMTYPE, "deep"
        archive.addfile(link)
        archive.addfile(file)
    with pytest.raises(OSError, match="exists"):
        unpack(tmp_path / "bad", tmp_path / "b", uid=None, gid=None)
    assert not (tmp_path / "b").exists()

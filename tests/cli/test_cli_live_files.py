"""Files that verbs write: whole, for their owner alone, and in their folder."""

import tarfile
from pathlib import Path

from tests.cli.live_session import ValueClient, printed, treadle


def test_files_are_written_whole_and_for_their_owner_alone(capsys, tmp_path: Path) -> None:
    client = ValueClient()
    live, packed = tmp_path / "live.jsonl", tmp_path / "debug.tar.gz"
    assert printed(capsys, client, "journal", "-o", str(live)) == (
        f"wrote {live} (16 bytes); treadle analyze {live} studies it\n"
    )
    assert live.read_bytes() == b'{"a":1}\n{"b":2}\n'
    shown = printed(capsys, client, "debug-bundle", "-o", str(packed))
    size = packed.stat().st_size
    assert shown == (f"wrote {packed} (2 files, {size:,} bytes); review it before you share it\n")
    with tarfile.open(packed) as archive:
        assert archive.getnames() == ["treadle-debug/daemon.log", "treadle-debug/status.json"]
    assert {path.stat().st_mode & 0o777 for path in (live, packed)} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["debug.tar.gz", "live.jsonl"]
    assert printed(capsys, client, "snapshot") == '{\n "now": 12.5\n}\n'


def test_a_bundle_never_leaves_its_folder(capsys, tmp_path: Path) -> None:
    class Hostile(ValueClient):
        def debug(self) -> dict[str, str]:
            return {"../../.bashrc": "x"}

    assert treadle(Hostile(), "debug-bundle", "-o", str(tmp_path / "x.tar.gz")) == 2
    assert capsys.readouterr().err == (
        "treadle: the daemon sent a file named ../../.bashrc, which is not a plain file name\n"
    )
    assert not list(tmp_path.iterdir())

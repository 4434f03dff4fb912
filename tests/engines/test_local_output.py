"""What ranks print: kept per rank, cut in the middle, masked, and never a reason to stop a job."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.bench import Story, on, tell, telling
from tests.engines.small_disk import small_disk

from treadle.core.actions import Change, Start
from treadle.core.errors import EngineError
from treadle.core.events import DeviceOpened, JobFailed, JobFinished, JobStopped
from treadle.core.launch import AttemptId
from treadle.engines.node import output as logs
from treadle.engines.node import processes
from treadle.engines.node.output_capture import Log, Mask

SECRET = "correct-horse-battery-staple"
MIB = 2**20


@telling()
async def test_each_rank_has_a_log_of_its_own_with_both_streams(bench: Story) -> None:
    bench.job("a", "sh", "-c", "echo out $RANK; echo err $RANK >&2", ranks=2)
    await bench.order(Start(0, "a", on(0, 1)))
    await bench.ended()
    assert [bench.log("a", rank=rank) for rank in (0, 1)] == ["out 0\nerr 0\n", "out 1\nerr 1\n"]
    assert logs.ranks(bench.folder("a")) == [0, 1]
    assert logs.read(bench.folder("a"), 0, offset=0, limit=4).ranks == 2


@telling()
async def test_a_flood_keeps_its_head_and_its_tail_and_fills_no_disk(bench: Story) -> None:
    flood = "import os\nfor n in range(8192): os.write(1, b'%08d' % n * 1024)"  # 64 MiB
    bench.job("a", "python", "-c", flood, log_bytes_max=4 * MIB)
    await bench.order(Start(0, "a", on(0)))
    assert await bench.ended() == JobFinished("a", 0)
    folder = bench.folder("a")
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 4 * MIB + 65536
    head = logs.read(folder, 0, offset=0, limit=16)
    assert head.data == b"0000000000000000"
    assert head.size == 64 * MIB
    assert logs.read(folder, 0, offset=-8, limit=16).data == b"00008191"
    status = json.loads((folder / "status.json").read_text())
    (lost,) = status["lost"]
    assert lost == 64 * MIB - sum(piece.size for piece in logs.pieces(folder, 0)) > 59 * MIB
    assert status["dropped"] == [0]


def test_the_newest_half_to_quarter_of_the_limit_is_kept(tmp_path: Path):
    log = Log(str(tmp_path), "rank-0", 40)
    for number in range(10):
        log.write(b"%010d" % number)
    assert [piece[:2] for piece in logs.pieces(tmp_path, 0)] == [(0, 20), (80, 10), (90, 10)]
    assert (tmp_path / "rank-0.90.log").read_bytes() == b"%010d" % 9
    assert log.lost == 60


def test_one_answer_goes_on_over_files_that_follow_each_other(tmp_path: Path):
    """1. The newest piece has 3 bytes. 2. The last 8 bytes are asked for and given."""
    log = Log(str(tmp_path), "rank-0", 40)
    for number in range(10):
        log.write(b"%010d" % number)
    log.write(b"end")
    assert [piece[:2] for piece in logs.pieces(tmp_path, 0)] == [(0, 20), (90, 10), (100, 3)]
    assert logs.read(tmp_path, 0, offset=-8, limit=8) == (95, b"00009end", 103, 0, 1)
    assert logs.read(tmp_path, 0, offset=-8, limit=6) == (95, b"00009e", 103, 0, 1)
    assert logs.read(tmp_path, 0, offset=85, limit=99) == (90, b"0000000009end", 103, 5, 1)


def test_one_answer_ends_where_bytes_were_dropped(tmp_path: Path):
    log = Log(str(tmp_path), "rank-0", 40)
    for number in range(10):
        log.write(b"%010d" % number)
    assert logs.read(tmp_path, 0, offset=15, limit=99) == (15, b"00001", 100, 0, 1)


def test_a4_output_that_is_gone_is_empty_and_output_that_cannot_be_read_is_an_error(tmp_path: Path):
    assert logs._bytes(tmp_path / "missing", 0, 8) == b""
    with pytest.raises(IsADirectoryError):  # A folder can be opened and not read.
        logs._bytes(tmp_path, 0, 8)
    (tmp_path / "file").touch()
    assert logs.pieces(tmp_path / "missing", 0) == []
    with pytest.raises(NotADirectoryError):
        logs.pieces(tmp_path / "file", 0)


@telling()
async def test_output_that_the_disk_does_not_give_is_an_engine_error(bench: Story) -> None:
    await bench.begin()
    bench.folder("a").mkdir(parents=True)
    too_long = AttemptId("a", 10**300)  # as the name of a folder
    with pytest.raises(EngineError, match="the output of job a cannot be read: File name too"):
        await bench.engine.output(too_long, 0)


def test_a15_a_short_secret_is_shown_as_masked_when_the_longer_one_does_not_follow():
    mask = Mask(["password", "password-1234"])
    assert mask.hide(b"x password") == b"x "
    assert mask.hide(b"-12") == b""
    assert mask.hide(b"99") == b"***-1299"
    assert mask.hide(b"password") + mask.rest() == b"***"


@given(
    secrets=st.lists(st.text("ab", min_size=4, max_size=7), min_size=1, max_size=3),
    text=st.text("abc", max_size=40),
    sizes=st.lists(st.integers(1, 9), max_size=12),
)
def test_a15_reads_make_no_difference_and_no_secret_is_left(
    secrets: list[str], text: str, sizes: list[int]
):
    """Compared with each byte of the text marked on its own."""
    data, covered = text.encode(), [False] * len(text)
    for secret in secrets:
        for at in range(len(text)):
            if text.startswith(secret, at):
                covered[at : at + len(secret)] = [True] * len(secret)
    open_bytes = bytes(byte for byte, hidden in zip(data, covered, strict=True) if not hidden)
    mask, shown, at = Mask(secrets), b"", 0
    for size in (*sizes, len(data)):
        shown += mask.hide(data[at : at + size])
        at += size
    # A mark at the end, which belongs to no secret, leaves nothing kept back.
    shown += mask.hide(b"|") + mask.rest()
    assert shown.replace(b"***", b"") == open_bytes + b"|"


def test_what_only_looks_like_a_secret_is_shown_in_the_end():
    mask = Mask([SECRET])
    assert mask.hide(b"x correct-") == b"x "
    assert mask.hide(b"answer") == b"correct-answer"
    assert mask.hide(b"corr") == b""
    assert mask.rest() == b"corr"


def test_most_of_a_secret_is_a_secret():
    mask = Mask([SECRET])
    assert mask.hide(SECRET[:-1].encode()) == b""
    assert mask.rest() == b"***"


def test_values_that_are_too_short_are_not_masked():
    assert Mask(["1", "yes"]).hide(b"yes 1") == b"yes 1"


def test_every_line_of_a_secret_of_several_lines_is_masked():
    key = "-----BEGIN-----\nMIIBVwIBADANBg\nkqhkiG9w0B\n-----END-----\n"
    shown = Mask([key])
    assert shown.hide(b"2: MIIBVwIBADANBg;" + key.encode()) + shown.rest() == b"2: ***;***"


@telling()
async def test_secrets_reach_the_job_alone(bench: Story, tmp_path: Path) -> None:
    halves = 'printf "%s" "$PASSWORD" | cut -c1-10 | tr -d "\\n"; sleep 0.1; '
    halves += 'printf "%s" "$PASSWORD" | cut -c11-; env; echo "$PASSWORD" | wc -c; sleep 0.2'
    bench.job("a", "sh", "-c", halves, secrets={"PASSWORD": SECRET})
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    for pid in processes.all_pids():
        assert SECRET not in processes.command_of(pid)
    assert await bench.ended() == JobFinished("a", 0)
    text = bench.log("a")
    assert text.startswith("***\n")
    assert "PASSWORD=***" in text
    assert text.endswith(f"{len(SECRET) + 1}\n")
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "1m") as place:
        yield place


def test_a_full_disk_costs_output_and_not_the_job(disk: Path):
    """1. The job fills the disk. 2. It ends with 3. 3. That is on disk, full as it is."""

    async def story(bench: Story) -> None:
        flood = "import os, sys\nfor n in range(64): os.write(1, b'x' * 65536)\nsys.exit(3)"
        bench.job("a", "python", "-c", flood)
        await bench.order(Start(0, "a", on(0)))
        assert isinstance(await bench.ended(), JobFailed)
        (ended,) = bench.ends
        assert (ended.code, ended.how, ended.error) == (3, "exited", "")
        status = json.loads((bench.folder("a") / "status.json").read_text())
        assert status["dropped"][0] > 3 * MIB
        lost = f"\n[treadle: {status['dropped'][0]} bytes of output were lost, the disk was full]\n"
        assert bench.log("a").endswith(lost), "the reader is told, though the disk is full"
        # Nothing can be launched now, which is the machine's fault and passes.
        bench.job("b", "true")
        with (disk / "rest").open("wb", buffering=0) as rest, suppress(OSError):
            while True:
                rest.write(b"x" * 4096)
        await bench.order(Start(1, "b", on(0)))
        assert await bench.ended() == JobStopped("b", 1, 0.0)
        assert bench.ends[-1].how == "machine-error"
        because = bench.engine.view()[0].devices[0].because
        assert f"No space left on device (ENOSPC): {disk}/engine; " in because
        (disk / "rest").unlink()
        next(bench.folder("a").glob("rank-0.log")).unlink()
        await bench.until(lambda: isinstance(bench.closed[-1], DeviceOpened))
        bench.job("c", "true")
        await bench.order(Start(2, "c", on(0)))
        assert await bench.ended() == JobFinished("c", 2)

    tell(disk, story)


def test_output_goes_on_when_the_disk_has_room_again(disk: Path, monkeypatch):
    monkeypatch.setattr("treadle.engines.node.output_capture.SILENT_S", 0.0)
    log = Log(str(disk), "rank-0", 64 * MIB)
    (disk / "rest").write_bytes(b"x" * (900 * 1024))
    log.write(b"a" * MIB)
    assert log.dropped > 0
    (disk / "rest").unlink()
    log.write(b"after")
    text = (disk / "rank-0.log").read_bytes()
    assert text.endswith(b"after")
    assert b"bytes of output were lost, the disk was full" in text


@telling()
async def test_following_an_attempt_ends_with_it_though_the_next_one_waits(bench: Story) -> None:
    bench.job("a", "sh", "-c", "echo up; exec sleep 600")
    bench.job("b", "sleep", "600")
    await bench.order(Start(0, "a", on(0)), Start(1, "b", on(1)))
    await bench.event()
    await bench.event()
    await bench.until(lambda: bench.log("a"))
    await bench.order(Change(2, "a", on(0, 1), ("b",)))  # `b` keeps its device
    pieces = [piece.data async for piece in bench.engine.follow(AttemptId("a", 1), 0)]
    assert pieces == [b"up\n"]
    waits = await bench.engine.output(AttemptId("a", 2), 0)
    assert (waits.data, waits.size) == (b"", 0)

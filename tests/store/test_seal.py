"""Secrets at rest: only with the key, which only its owner can read."""

import os
import stat
from pathlib import Path
from threading import Barrier, Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.core.errors import InvalidInputError
from treadle.store.errors import StoreError
from treadle.store.seal import Seal

SECRETS = {"TOKEN": "hunter2", "ünï": "\0\n'"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "key"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secrets=st.dictionaries(st.text(), st.text()))
def test_what_is_sealed_opens_again_with_the_same_file(path: Path, secrets) -> None:
    sealed = Seal.open(path).seal(secrets)
    assert Seal.open(path).unseal(sealed) == secrets


def test_sealed_secrets_show_nothing_and_differ_each_time(path: Path) -> None:
    seal = Seal.open(path)
    first, second = seal.seal(SECRETS), seal.seal(SECRETS)
    assert first != second
    assert b"hunter2" not in first
    assert b"TOKEN" not in first
    assert path.read_text() not in repr(seal)


def test_the_key_is_for_its_owner_only_and_leaves_no_drafts(path: Path) -> None:
    before = os.umask(0)
    try:
        Seal.open(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["key"]


def test_two_who_make_a_key_at_once_get_the_same(path: Path) -> None:
    barrier = Barrier(8)
    seals: list[Seal] = []

    def work() -> None:
        barrier.wait()
        seals.append(Seal.open(path))

    threads = [Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sealed = seals[0].seal(SECRETS)
    assert [seal.unseal(sealed) for seal in seals] == [SECRETS] * 8


def test_another_key_does_not_open_them(path: Path, tmp_path: Path) -> None:
    sealed = Seal.open(path).seal(SECRETS)
    with pytest.raises(StoreError) as found:
        Seal.open(tmp_path / "other").unseal(sealed)
    assert str(found.value) == (
        f"a job's secrets do not open with the key in {tmp_path}/other; put back the key they "
        "were sealed with, or submit the job again"
    )
    assert not found.value.retryable


def test_damaged_secrets_do_not_open(path: Path) -> None:
    seal = Seal.open(path)
    sealed = seal.seal(SECRETS)
    other = b"B" if sealed[20:21] == b"A" else b"A"
    for damaged in (b"", sealed[:-1], sealed[:20] + other + sealed[21:], b"\xff" * 80):
        with pytest.raises(StoreError, match="do not open with the key"):
            seal.unseal(damaged)


@pytest.mark.parametrize("content", [b"", b"short", b"!" * 44, b"x" * 45, b"A" * 44 + b"\n\n\n"])
def test_a_damaged_key_is_named(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InvalidInputError, match=f"the key in {path} is damaged, 44 characters"):
        Seal.open(path)
    assert path.read_bytes() == content


def test_a_key_that_others_can_read_is_refused(path: Path) -> None:
    Seal.open(path)
    path.chmod(0o640)
    with pytest.raises(InvalidInputError, match=f"the key {path} is open to others"):
        Seal.open(path)


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_not_followed(path: Path, tmp_path: Path, exists: bool) -> None:
    target = tmp_path / "target"
    if exists:
        Seal.open(target)
    path.symlink_to(target)
    with pytest.raises(StoreError, match=f"cannot read the key {path}"):
        Seal.open(path)
    assert target.exists() == exists


def test_a_pipe_in_place_of_the_key_is_refused_without_waiting(path: Path) -> None:
    os.mkfifo(path, 0o600)
    with pytest.raises(InvalidInputError, match="is not a file"):
        Seal.open(path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot make the key .*: No such file or directory"):
        Seal.open(tmp_path / "nowhere" / "key")

"""A store and a state folder: bonded once, checked from both sides, renewed only on purpose."""

from pathlib import Path

import pytest

from treadle.core.errors import InvalidInputError
from treadle.store.bond import FILE, bond, bonded_folder, folder_identity, folder_lock, renew
from treadle.store.deadline import Deadline
from treadle.store.identity import FOLDER_KEY
from treadle.store.peek import peek
from treadle.store.rows import Batch
from treadle.store.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.mkdir()
    return made


def other(tmp_path: Path) -> Store:
    return Store.open(f"sqlite:///{tmp_path / 'other.db'}")


def test_a_store_keeps_its_id(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'treadle.db'}"
    with Store.open(url) as store:
        first = store.identity
    with Store.open(url) as store:
        assert store.identity == first
        assert "identity.store" not in store.settings(), "it is no setting of the controller"
    with other(tmp_path) as store:
        assert store.identity != first


def test_a_new_store_and_a_new_folder_are_bonded_and_start_again(store: Store, folder: Path):
    bond(store, folder)
    here = folder_identity(folder)
    assert here is not None
    assert here.store == store.identity
    there = bonded_folder(store.setting(FOLDER_KEY))
    assert there is not None
    assert (there.id, there.path) == (here.id, str(folder))
    bond(store, folder)
    assert folder_identity(folder) == here


def test_a_bond_that_was_interrupted_is_finished(store: Store, folder: Path) -> None:
    """1. The folder's half is written. 2. A crash. 3. The store's half follows."""
    bond(store, folder)
    here = folder_identity(folder)
    store.write(Batch(settings={FOLDER_KEY: ""}))
    bond(store, folder)
    assert folder_identity(folder) == here
    there = bonded_folder(store.setting(FOLDER_KEY))
    assert there is not None
    assert here is not None
    assert there.id == here.id


def test_a_folder_is_refused_to_another_store(store: Store, folder: Path, tmp_path: Path) -> None:
    bond(store, folder)
    with other(tmp_path) as second:
        with pytest.raises(InvalidInputError) as refusal:
            bond(second, folder)
        assert str(refusal.value) == (
            f"the state folder {folder} belongs to store {store.identity[:8]} ({store.name}), and "
            f"{second.name} is store {second.identity[:8]}; start with the store it belongs to, "
            "put that back from a backup, name another folder (--state), or run treadle doctor "
            "--bond to use this folder with this store from now on"
        )
        assert second.setting(FOLDER_KEY) is None
        renew(second, folder)
        bond(second, folder)


@pytest.mark.parametrize("second", ["new", "emptied", "bonded"])
def test_a_store_is_refused_to_another_folder(
    store: Store, folder: Path, tmp_path: Path, second: str
) -> None:
    """Also to the same one without its file: it was emptied, and its jobs may run unseen."""
    bond(store, folder)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if second == "emptied":
        (folder / FILE).unlink()
        elsewhere = folder
    if second == "bonded":
        renew(store, elsewhere)
        elsewhere = folder
    with pytest.raises(InvalidInputError, match="or run treadle doctor --bond to use this store"):
        bond(store, elsewhere)


def test_a_damaged_identity_is_refused_and_not_replaced(store: Store, folder: Path) -> None:
    (folder / FILE).write_text('{"id": 1}')
    with pytest.raises(InvalidInputError, match="cannot be read \\(it is damaged\\)"):
        bond(store, folder)
    assert (folder / FILE).read_text() == '{"id": 1}'


def test_a_folder_is_locked_once_and_its_holder_named(folder: Path) -> None:
    first, second = folder_lock(folder, store="/a/treadle.db"), folder_lock(folder)
    first.take(str(folder), Deadline(0))
    with pytest.raises(InvalidInputError, match=r"process \d+, with the store /a/treadle.db; stop"):
        second.take(str(folder), Deadline(0))
    first.release()
    second.take(str(folder), Deadline(0))
    second.release()


def test_a_look_at_a_store_that_is_open_changes_nothing(store: Store, url: str, folder: Path):
    bond(store, folder)
    found = peek(url)
    assert found is not None
    assert (found.identity, found.unfinished, found.damage) == (store.identity, 0, "")
    assert found.folder is not None
    assert found.folder.path == str(folder)

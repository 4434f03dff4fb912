"""Where a store is: what is understood, and the sentence for what is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from treadle.core.errors import InvalidInputError
from treadle.store.store import Store

EXPECTED = "expected sqlite:///path or postgresql://user@host/database"


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", f"the store's URL cannot be read; {EXPECTED}"),
        ("treadle.db", f"the store's URL cannot be read; {EXPECTED}"),
        ("postgresql://ada:geheim@host:port/db", f"the store's URL cannot be read; {EXPECTED}"),
        ("mysql://host/db", f"the store's URL begins with mysql; {EXPECTED}"),
        ("sqlite+aiosqlite:///x", f"the store's URL begins with sqlite+aiosqlite; {EXPECTED}"),
        ("sqlite://", "a SQLite store needs a file; expected sqlite:///path"),
        ("sqlite:///:memory:", "a SQLite store needs a file; expected sqlite:///path"),
        ("sqlite://host/x", "a SQLite store needs a file; expected sqlite:///path"),
        ("sqlite:///x?mode=ro", "a SQLite store takes no options, found ?mode=ro"),
        (
            "sqlite:////nowhere/at/all.db",
            "the store /nowhere/at/all.db is in a folder that does not exist; create it first",
        ),
    ],
)
def test_a_url_that_is_no_store_is_answered_with_one_sentence(url: str, sentence: str) -> None:
    with pytest.raises(InvalidInputError) as found:
        Store.open(url)
    assert str(found.value) == sentence


def test_a_missing_driver_is_named_with_what_to_install() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from treadle.store.store import Store\n"
        "try:\n    Store.open('postgresql://ada:geheim@host/db')\n"
        "except Exception as error:\n    sys.exit(f'{type(error).__name__}: {error}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == (
        "InvalidInputError: the store postgresql://ada:***@host/db needs psycopg; "
        "install treadle[postgresql]"
    )


def test_a_relative_path_is_of_this_folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open("sqlite:///odd name?.db".replace("?", "#")) as store:
        assert store.kind == "sqlite"
    assert (tmp_path / "odd name#.db").is_file()


@pytest.mark.parametrize("name", ["a b", "100%", "ünïcode", "a#b", "semi;colon", "%41"])
def test_names_of_files_may_be_odd(tmp_path: Path, name: str) -> None:
    Store.open(f"sqlite:///{tmp_path}/{name}.db").close()
    assert (tmp_path / f"{name}.db").is_file()


def test_the_store_is_not_loaded_with_the_library() -> None:
    program = "import sys, treadle; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

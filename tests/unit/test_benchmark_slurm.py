"""The Slurm that the live benchmark starts: its configuration, and that nothing of it stays."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import slurm
from benchmarks.slurm import SlurmError, configuration, jobs_per_second, running


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary folders are made; a short path, because a socket's must be short.

    Pytest makes its own folder first, or it would be inside.
    """
    with tempfile.TemporaryDirectory(prefix="t-") as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        yield Path(place)


def _processes_of(folder: Path) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"SLURM_CONF={folder}".encode() in place.read_bytes():
                found.append(place.parent.name)
        except OSError:
            continue
    return found


def test_everything_is_on_loopback_and_in_the_folder() -> None:
    text = configuration(Path("/somewhere"), 5000, 16, (1111, 2222))
    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert settings["SlurmctldHost"].endswith("(127.0.0.1)")
    assert settings["CommunicationParameters"] == "NoCtldInAddrAny,NoInAddrAny"
    assert "NodeAddr=127.0.0.1 CPUs=16 " in settings["NodeName"]
    assert settings["SlurmdParameters"] == "config_overrides"
    assert settings["AccountingStorageType"] == "accounting_storage/none"
    assert int(settings["MaxJobCount"]) > 5000
    assert int(settings["MaxArraySize"]) > 5000
    places = [value for key, value in settings.items() if key.endswith(("File", "Dir", "Location"))]
    assert len(places) == 6
    assert all(place.startswith("/somewhere/") for place in places)


def _skip_without_slurm() -> None:
    try:
        slurm.version()
    except SlurmError as error:
        pytest.skip(f"Slurm is {error}")


@pytest.mark.parametrize("array", [False, True])
def test_a_few_jobs_run_and_nothing_is_left(array: bool, folder: Path) -> None:
    _skip_without_slurm()
    assert jobs_per_second(3, 2, array=array) > 0
    assert not list(folder.iterdir())
    assert not _processes_of(folder)


def test_an_interrupted_measurement_leaves_no_job_behind(folder: Path) -> None:
    _skip_without_slurm()
    with pytest.raises(KeyboardInterrupt), running(3, 2) as started:  # noqa: PT012
        started.call("sbatch", "--output=/dev/null", "--wrap=trap '' TERM; sleep 600 & wait; wait")
        while not started.states()["RUNNING"]:
            time.sleep(0.1)
        raise KeyboardInterrupt
    assert not list(folder.iterdir())
    assert not _processes_of(folder)

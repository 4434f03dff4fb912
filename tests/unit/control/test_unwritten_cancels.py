"""Cancellations that the store has not taken are on disk."""

from dataclasses import replace
from pathlib import Path

from treadle.control.jobs import JobRecord, UnwrittenCancels
from treadle.control.jobs.unwritten_cancels import FILE
from treadle.core.events import JobCancelled

ONE = JobRecord(
    id="5_1", number=5, name="a", owner="me", command=("x",), submitted_at=1.0, nonce="n"
)
OTHER = replace(ONE, id="5_2")


def test_they_outlive_the_daemon_and_are_of_one_member_alone(tmp_path: Path) -> None:
    UnwrittenCancels(tmp_path).add([ONE], "ada")
    found = UnwrittenCancels(tmp_path)
    records = {record.id: record for record in (ONE, OTHER)}
    assert found.facts(records) == [JobCancelled("5_1", "ada")]
    assert found.facts({"5_1": replace(ONE, nonce="another store")}) == []
    found.drop([ONE])
    assert not (tmp_path / FILE).exists()
    assert UnwrittenCancels(tmp_path).facts(records) == []


def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[1]")
    assert UnwrittenCancels(tmp_path).facts({"5_1": ONE}) == []


def test_one_that_could_not_be_written_is_not_said_to_be(tmp_path: Path) -> None:
    found = UnwrittenCancels(tmp_path / "away")
    found.add([ONE], "ada")
    assert not found.has(ONE)
    (tmp_path / "away").mkdir()
    found.add([ONE], "ada")
    assert (found.has(ONE), found.has(OTHER)) == (True, False)

"""The command line sends one request for many ids, and `--mine` means all of one's own."""

import json

import pytest
from tests.cli.live_session import NOW, ValueClient, detail, job, treadle

from treadle.cli.show.clock import date_text
from treadle.core.errors import InvalidInputError
from treadle.wire.job_orders import JobOutcome, JobSelection, JobsOrder
from treadle.wire.jobs import State
from treadle.wire.retention import Keep, PruneRequest


def test_many_ids_are_requests_of_1000_and_one_list(capsys) -> None:
    client = ValueClient(views=[job(str(n)) for n in range(1, 2000)])
    assert treadle(client, "cancel", *(str(n) for n in range(1, 2000))) == 0
    assert [len(order.ids) for order in client.requests] == [1000, 999]
    assert client.pages <= 2
    assert capsys.readouterr().out.count("cancelled\n") == 1999


def test_ids_that_are_not_in_the_list_are_refused_by_the_daemon(capsys) -> None:
    client = ValueClient(views=[job("1")])
    assert treadle(client, "cancel", "1", "2", "3", "4", "5", "6") == 102
    out, err = capsys.readouterr()
    assert out == "job 1 cancelled\n"
    assert err.count("there is no job") == 5
    assert len(client.requests) == 1


def test_mine_is_all_of_mine(capsys) -> None:
    client = ValueClient(views=[job("1"), job("2")])
    assert treadle(client, "hold", "--mine") == 0
    assert capsys.readouterr().out == "job 1 held\njob 2 held\n"
    assert client.requests[0].select == JobSelection(mine=True)
    assert client.requests[1].ids == ("1", "2")
    assert treadle(client, "hold") == 2
    assert treadle(client, "hold", "1", "--mine") == 2
    assert "name JOBS, or --mine for all of yours" in capsys.readouterr().err


def test_prune_says_what_it_removed_and_what_is_kept(capsys) -> None:
    client = ValueClient()
    assert treadle(client, "prune", "--older-than", "30d", "--logs-over", "20GiB") == 0
    assert capsys.readouterr().out == (
        "JOB  USER  ENDED               SIZE\n"
        f"7    anna  {date_text(NOW - 9e6)}  1.5MiB\n"
        "removed the output of 1 job, 1.5MiB, 2 empty checkpoint folders, 12 journal lines; "
        "3KiB of output is kept\n"
    )
    asked = client.asked[-1][1]
    assert asked == PruneRequest(older_than_s=30 * 86_400.0, logs_over=20 * 2**30)
    assert treadle(client, "prune", "--dry-run", "--records", "--older-than", "1d", "--json") == 0
    assert json.loads(capsys.readouterr().out)["dry_run"] is True
    assert treadle(client, "prune", "--records") == 2
    assert treadle(client, "prune", "--logs-over", "much") == 2


def test_a_log_that_was_pruned_is_said_to_be(capsys) -> None:
    over = detail(job("7", State.SUCCEEDED, ended_at=NOW - 60), logs_pruned_at=NOW)
    client = ValueClient(views=[over.job], details={"7": over})
    assert treadle(client, "logs", "7") == 102
    assert capsys.readouterr().err == (
        f"treadle: the log of job 7 was pruned on {date_text(NOW)}\n"
    )
    assert treadle(client, "describe", "7") == 0
    assert f"log        pruned on {date_text(NOW)}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "keep", "shown"),
    [
        ("30d,20GiB", Keep(30 * 86_400.0, 20 * 2**30), "30d,20GiB"),
        ("500MB", Keep(None, 500_000_000), "476.8MiB"),
        ("12h", Keep(43_200.0), "12h"),
        ("forever", Keep(), "forever"),
    ],
)
def test_a_setting_is_an_age_a_size_or_both(text, keep, shown) -> None:
    assert Keep.of(text, "--keep-logs") == keep
    assert str(keep) == shown


@pytest.mark.parametrize("text", ["", "30d,20d", "20GiB,1GiB", "soon", "-1d"])
def test_a_setting_that_cannot_be_read_is_refused(text) -> None:
    with pytest.raises(InvalidInputError, match="keep-logs is"):
        Keep.of(text, "--keep-logs")


def test_ended_jobs_are_deleted_by_id_or_name_in_one_request(capsys) -> None:
    over = [job(str(n), State.SUCCEEDED, name="old") for n in (7, 8)]
    client = ValueClient(views=[*over, job("9", name="old")])
    assert treadle(client, "delete", "old", "5") == 102
    out, err = capsys.readouterr()
    assert out == "job 7 deleted\njob 8 deleted\n"
    assert err == "treadle: there is no job 5\n"
    assert [order.ids for order in client.requests] == [("7", "8", "5")]
    assert treadle(client, "delete", "new") == 102
    assert "no ended job has the id or name new" in capsys.readouterr().err


class Refusing(ValueClient):
    """Refuses every change of some jobs, also when it is only tried."""

    refused: tuple[str, ...] = ("1",)

    def _outcome(self, order: JobsOrder, identity: str) -> JobOutcome:
        if identity in self.refused:
            return JobOutcome(id=identity, error="this machine has 4 devices", code="invalid")
        return super()._outcome(order, identity)


def test_an_order_for_mine_that_every_job_refuses_says_why(capsys) -> None:
    client = Refusing(views=[job("1")])
    assert treadle(client, "update", "--mine", "-y", "-d", "99") == 2
    assert capsys.readouterr().err == "treadle: this machine has 4 devices\n"
    assert [order.dry_run for order in client.requests] == [True]


def test_an_order_for_mine_names_the_jobs_that_refuse_it(capsys) -> None:
    client = Refusing(views=[job("1"), job("2")])
    assert treadle(client, "update", "--mine", "-y", "-d", "99") == 2
    out, err = capsys.readouterr()
    assert out == "job 2 updated\n"
    assert err == "treadle: this machine has 4 devices\n"

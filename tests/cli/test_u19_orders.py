"""U19: the command line sends one request for many ids, and `--mine` means all of one's own."""

import json

from tests.cli.live_session import ValueClient, job, treadle

from treadle.wire.orders import JobSelection, Verb


def test_u19_many_ids_are_one_request_and_one_list(capsys) -> None:
    client = ValueClient(views=[job(str(n)) for n in range(1, 2000)])
    assert treadle(client, "cancel", *(str(n) for n in range(1, 2000))) == 0
    assert [len(order.ids) for order in client.requests] == [1999]
    assert client.pages <= 2
    assert capsys.readouterr().out.count("cancelled\n") == 1999


def test_u19_ids_that_are_not_in_the_list_are_refused_by_the_daemon(capsys) -> None:
    client = ValueClient(views=[job("1")])
    assert treadle(client, "cancel", "1", "2", "3", "4", "5", "6") == 102
    out, err = capsys.readouterr()
    assert out == "job 1 cancelled\n"
    assert err.count("there is no job") == 5
    assert len(client.requests) == 1


def test_u19_mine_is_all_of_mine(capsys) -> None:
    client = ValueClient(views=[job("1"), job("2")])
    assert treadle(client, "hold", "--mine") == 0
    assert capsys.readouterr().out == "job 1 held\njob 2 held\n"
    assert client.requests[0].select == JobSelection(mine=True)
    assert client.requests[1].ids == ("1", "2")
    assert treadle(client, "hold") == 2
    assert treadle(client, "hold", "1", "--mine") == 2
    assert "name JOBS, or --mine for all of yours" in capsys.readouterr().err


def test_u19_orders_answer_in_json(capsys) -> None:
    client = ValueClient(views=[job("1")])
    assert treadle(client, "cancel", "1", "9", "--json") == 102
    answer = json.loads(capsys.readouterr().out)
    assert [(each["id"], each["error"]) for each in answer] == [("1", "")]
    assert client.requests[0].verb is Verb.CANCEL

"""What `treadle token` prints, to the letter."""

import json

import pytest
from tests.cli.live_session import ValueClient, printed, treadle


def test_tokens_are_listed_made_and_revoked(capsys) -> None:
    client = ValueClient()
    assert printed(capsys, client, "token", "list") == (
        "ID  NAME  USER  ROLE  MADE       USED    EXPIRES\n"
        "t1  ci    anna  user  1d00h ago  never   never\n"
        "t2  old   anna  user  1d00h ago  1m ago  expired\n"
    )
    assert treadle(client, "token", "make", "ci", "--role", "viewer", "--days", "2") == 0
    out, err = capsys.readouterr()
    assert out == "treadle_user_t1_secret\n"
    assert err == (
        "treadle: token with role viewer for anna for 2d00h, shown only once; use it as "
        "TREADLE_TOKEN, revoke "
        "it with treadle token revoke t1\n"
    )
    assert printed(capsys, client, "token", "revoke", "t1") == "token t1 revoked\n"


def test_tokens_are_revoked_one_by_one_or_all_of_a_user(capsys) -> None:
    client = ValueClient()
    assert printed(capsys, client, "token", "revoke", "t1", "t2", "--json") == (
        '{\n "revoked": [\n  "t1",\n  "t2"\n ]\n}\n'
    )
    both = "token t1 revoked\ntoken t2 revoked\n"
    assert printed(capsys, client, "token", "revoke", "--all") == both
    assert printed(capsys, client, "token", "revoke", "--all", "--user", "bob") == both
    assert client.asked == [
        ("revoke", "t1"),
        ("revoke", "t2"),
        ("revoke all", ""),
        ("revoke all", "bob"),
    ]
    for words in ([], ["t1", "--all"], ["t1", "--user", "bob"]):
        assert treadle(client, "token", "revoke", *words) == 2
    capsys.readouterr()


@pytest.mark.parametrize(("words", "days"), [([], 90.0), (["--expires", "12h"], 0.5)])
def test_every_token_expires(capsys, words: list[str], days: float) -> None:
    client = ValueClient()
    assert treadle(client, "token", "make", "ci", "--json", *words) == 0
    view = json.loads(capsys.readouterr().out)["view"]
    assert view["expires_at"] - view["created_at"] == days * 86_400
    assert treadle(client, "token", "make", "ci", "--days", "1", "--expires", "12h") == 2
    capsys.readouterr()

"""Where a Ray cluster is: what is accepted, and how soon a wrong address is refused."""

import socket
from pathlib import Path

import pytest

from treadle.core.errors import InvalidInputError
from treadle.engines.clusters.ray.address import (
    check_answers,
    check_token,
    free_port,
    given_address,
    surroundings,
)


@pytest.mark.parametrize(
    ("option", "variable", "found"),
    [
        ("", "", ""),
        ("", "10.0.0.1:6379", "10.0.0.1:6379"),
        ("head:6379", "10.0.0.1:6379", "head:6379"),
        ("local", "10.0.0.1:6379", ""),
        ("[::1]:6379", "", "[::1]:6379"),
    ],
)
def test_the_option_wins_over_the_variable(option: str, variable: str, found: str) -> None:
    assert given_address(option, {"RAY_ADDRESS": variable}) == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ray://head:10001", "without a scheme: Ray Client is not used"),
        ("auto", "expected HOST:PORT of its head, such as 10.0.0.1:6379"),
        ("head", "such as 10.0.0.1:6379"),
        ("head:0", "such as 10.0.0.1:6379"),
        ("head:99999", "such as 10.0.0.1:6379"),
        ("he ad:6379", "such as 10.0.0.1:6379"),
    ],
)
def test_an_address_of_another_form_is_refused(text: str, expected: str) -> None:
    with pytest.raises(InvalidInputError, match=expected):
        given_address(text, {})


def test_a_port_where_nothing_listens_is_refused_in_one_sentence() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(InvalidInputError) as refused:
            check_answers(f"127.0.0.1:{port}", advice="; start one")
    assert str(refused.value) == (
        f"no Ray cluster answers at 127.0.0.1:{port} (connection refused); start one"
    )


def test_a_port_that_accepts_no_connection_is_refused_within_the_limit() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        held = [socket.socket() for _ in range(4)]
        for each in held:
            each.setblocking(False)
            each.connect_ex(address)
        with pytest.raises(InvalidInputError, match="no answer"):
            check_answers(f"127.0.0.1:{address[1]}", within_s=0.2)
        for each in held:
            each.close()


def test_a_port_that_accepts_connections_is_not_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_answers(f"localhost:{server.getsockname()[1]}")


def test_only_a_cluster_on_loopback_is_looked_for_there() -> None:
    switch = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
    assert switch in surroundings("127.0.0.1:6379")
    assert switch in surroundings("localhost:6379")
    assert switch not in surroundings("10.0.0.1:6379")
    assert switch not in surroundings("head.example:6379")


def test_the_port_of_a_head_is_not_one_of_its_workers() -> None:
    assert not any(10_002 <= free_port() < 20_000 for _ in range(200))


def test_a_token_that_cannot_be_read_is_refused_before_ray_aborts(tmp_path: Path) -> None:
    token = tmp_path / "token"
    asked = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "HOME": str(tmp_path)}
    with pytest.raises(InvalidInputError, match=r"token, cannot be read \(no such file\); set"):
        check_token(asked)
    token.mkdir()
    with pytest.raises(InvalidInputError, match=r"token, cannot be read \(is a directory\); set"):
        check_token(asked)
    token.rmdir()
    token.touch()
    with pytest.raises(InvalidInputError, match="token, is empty; set"):
        check_token(asked)
    token.write_text("secret")
    check_token(asked)


def test_the_token_itself_comes_first_and_its_usual_file_last(tmp_path: Path) -> None:
    asked = {"RAY_AUTH_MODE": "TOKEN", "HOME": str(tmp_path)}
    with pytest.raises(InvalidInputError, match="RAY_AUTH_MODE is token, and there is no token"):
        check_token(asked)
    check_token({**asked, "RAY_AUTH_TOKEN": "secret", "RAY_AUTH_TOKEN_PATH": "/nonexistent"})
    check_token({**asked, "RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN_PATH": "/nonexistent"})
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("secret")
    check_token(asked)

"""Numbers by tenant are written in one way for every policy, and anything else is refused."""

import pytest

from treadle.core.errors import InvalidInputError
from treadle.policies.base.quotas import Left
from treadle.testing.builders import job, policy
from treadle.wire.quotas import by_tenant, quotas


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a:32", {"a": 32.0}),
        ("a:32/b:16", {"a": 32.0, "b": 16.0}),
        ("a:32:b:16", {"a": 32.0, "b": 16.0}),
        ("a:0/b:0.5/c:1e3", {"a": 0.0, "b": 0.5, "c": 1000.0}),
        (" a : 32 / b : 16 ", {"a": 32.0, "b": 16.0}),
        (":8/a:2", {"": 8.0, "a": 2.0}),
        ("team-1.x:2", {"team-1.x": 2.0}),
    ],
)
def test_numbers_by_tenant_are_read(text: str, found: dict[str, float]) -> None:
    assert by_tenant("rubick", text) == found


@pytest.mark.parametrize("text", ["", "a", "a:x", "a:-1", "a:٣", "a:3,b:1", "a:3/", "a:3:b:1/c:2"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        by_tenant("rubick", text)
    assert str(error.value) == f"rubick quotas are written a:32/b:16, not {text!r}"


@pytest.mark.parametrize("text", ["a:1/a:2", "a:1:a:2"])
def test_a_tenant_is_named_once(text: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        by_tenant("antman", text)
    assert str(error.value) == f"antman quotas name tenant 'a' twice: {text!r}"


def test_quotas_are_whole_numbers_of_devices() -> None:
    assert quotas("antman", "a:3/b:0") == {"a": 3.0, "b": 0.0}
    with pytest.raises(InvalidInputError) as error:
        quotas("antman", "a:3/b:0.5")
    assert str(error.value) == "antman quotas are whole numbers of devices; tenant 'b' has 0.5"


@pytest.mark.parametrize("name", ["antman", "rubick", "philly"])
@pytest.mark.parametrize("text", ["a:32/b:16", "a:32:b:16"])
def test_every_policy_with_quotas_takes_the_same_text(name: str, text: str) -> None:
    policy(f"{name}?quotas={text}")


def test_a_weight_of_0_is_refused() -> None:
    with pytest.raises(InvalidInputError) as error:
        policy("philly?quotas=a:1/b:0")
    assert str(error.value) == "philly quotas are weights above 0, not 'a:1/b:0'"


def test_what_is_left_of_a_quota() -> None:
    left = Left({"a": 4.0}, 100)
    left.use(job("one", tenant="a"), 3)
    left.use(job("other", tenant="b"), 1)
    assert left.of(job("two", tenant="a")) == 1.0
    assert left.of(job("three", tenant="b")) == -1.0
    assert left.of(job("four", tenant="c")) == 0.0

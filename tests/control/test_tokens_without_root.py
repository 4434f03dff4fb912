"""Tokens of a daemon that is not root, which may serve users whom the machine does not have."""

import json
import os
import pwd
from collections.abc import Callable

import pytest

from treadle.control.api.accounts import _is_still
from treadle.store.rows import TokenRow
from treadle.wire.machine import Role, Who

NOBODY = pwd.getpwnam("nobody").pw_uid
SPARE_UID = 54_321  # no user has it


def as_nobody(act: Callable[[], object]) -> object:
    """The result of it in a process that is not root; JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            if os.geteuid() == 0:
                os.setuid(NOBODY)
            os.write(writing, json.dumps(act()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    os.waitpid(child, 0)
    return json.loads(text)


@pytest.mark.parametrize(
    ("owner", "uid", "good"),
    [
        ("root", 0, True),
        ("nobody", NOBODY, True),
        ("ghost", None, True),  # a service that is no user here
        (f"uid{SPARE_UID}", SPARE_UID, True),  # a peer without a name
        ("root", None, False),  # made when no user had the name, or by an older Treadle
        ("root", NOBODY, False),
        ("ghost", NOBODY, False),  # removed, and the id is another user's now
        ("ghost", SPARE_UID, False),  # removed
    ],
)
def test_name_and_id_of_a_token_must_still_belong_together(
    owner: str, uid: int | None, good: bool
) -> None:
    row = TokenRow("i", "d", "x", owner, "user", 0.0, None, None, uid)
    assert as_nobody(lambda: _is_still(row)) is good


@pytest.mark.parametrize(
    ("mine", "theirs", "same"),
    [
        (("ada", 1), ("ada", 1), True),
        (("ada", 1), ("eva", 1), False),  # the id was given to another user
        (("ada", 1), ("ada", 2), False),
        (("ada", None), ("ada", None), True),
        (("ada", None), ("eva", None), False),
        (("ada", None), ("ada", 1), False),
        (("ada", 1), ("ada", None), False),
    ],
)
def test_who_owns_what(
    mine: tuple[str, int | None], theirs: tuple[str, int | None], same: bool
) -> None:
    who = Who(user=mine[0], role=Role.USER, uid=mine[1])
    assert who.is_owner(*theirs) is same
    other = Who(user=theirs[0], role=Role.USER, uid=theirs[1])
    assert (who.account == other.account) is same
    job = Who(user=mine[0], role=Role.USER, uid=mine[1], job="7")
    assert not job.is_owner(*theirs)

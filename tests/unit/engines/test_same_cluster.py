"""Jobs of a state folder run on one Ray cluster, and no other one is given them."""

import socket
from pathlib import Path

import pytest

from treadle.core.errors import InvalidInputError
from treadle.engines.clusters.same_cluster import LastCluster, Wanted

OLD, NEW = "10.9.0.1:6379", "10.9.0.2:6379"


def last(tmp_path: Path, address: str) -> LastCluster:
    return LastCluster(tmp_path / "ray" / "cluster.json", address)


def test_any_cluster_will_do_for_the_first_one_and_while_no_job_runs(tmp_path: Path) -> None:
    assert last(tmp_path, NEW).wanted(3) == Wanted()
    last(tmp_path, OLD).keep("m1")
    assert last(tmp_path, NEW).wanted(0) == Wanted()


def test_a_head_that_was_started_again_at_its_address_will_do(tmp_path: Path) -> None:
    last(tmp_path, OLD).keep("m1")
    assert last(tmp_path, OLD).wanted(2) == Wanted()
    last(tmp_path, "").keep("m2")
    assert last(tmp_path, "").wanted(2) == Wanted()


def test_at_another_address_only_the_same_cluster_will_do(tmp_path: Path) -> None:
    last(tmp_path, OLD).keep("m1")
    assert last(tmp_path, NEW).wanted(2) == Wanted(
        "m1",
        f"2 jobs of this state folder run on the Ray cluster at {OLD}, and {NEW} is another one; "
        f"start with --address {OLD} and let them end, or cancel them; if that cluster is gone for "
        f"good, say so with --lost-cluster {OLD}: then they run again",
    )
    last(tmp_path, NEW).keep("m1")  # It was the same.
    assert last(tmp_path, NEW).wanted(2) == Wanted()


def test_jobs_of_a_head_of_its_own_are_named_too(tmp_path: Path) -> None:
    last(tmp_path, "").keep("m1")
    assert last(tmp_path, NEW).wanted(1) == Wanted(
        "m1",
        f"1 job of this state folder runs on its own Ray head, and {NEW} is another cluster; start "
        "with --engine ray --address local and let them end, or cancel them",
    )


def test_a_cluster_is_lost_if_its_user_says_so_and_nothing_answers_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        old = f"127.0.0.1:{listening.getsockname()[1]}"
        last(tmp_path, old).keep("m1")
        with pytest.raises(InvalidInputError, match=f"something answers at {old}, so that jobs"):
            last(tmp_path, NEW).wanted(2, old)
    assert last(tmp_path, NEW).wanted(2, old) == Wanted()
    assert last(tmp_path, NEW).wanted(2, OLD).mark == "m1", "it is another one that is lost"


def test_a_record_that_is_damaged_is_not_taken_for_none(tmp_path: Path) -> None:
    last(tmp_path, OLD).keep("m1")
    (tmp_path / "ray" / "cluster.json").write_text("{")
    with pytest.raises(InvalidInputError, match=r"cluster\.json cannot be read"):
        last(tmp_path, NEW).wanted(2)

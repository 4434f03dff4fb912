"""Past failures of jobs, users and nodes, and the retry decisions that follow."""

import pytest

from treadle.core.errors import InvalidInputError
from treadle.failures.classifier import classify
from treadle.failures.failure_history import FailureHistory, Fixed, Patience
from treadle.failures.verdict import Exit, Kind, Verdict

HOUR = 3600.0
LASTING = classify("KeyError: 'x'")
OOM = classify("torch.OutOfMemoryError: CUDA out of memory.")
NETWORK = classify("ConnectionResetError: [Errno 104] Connection reset by peer")
ECC = classify("RuntimeError: CUDA error: uncorrectable ECC error encountered")
LOST = classify("srun: error: Node failure on c1")
UNKNOWN = classify("", Exit.of(1))


def failed(history: FailureHistory, verdict: Verdict, job: str = "a", **facts: object) -> bool:
    """Whether the job is tried again after one more failure."""
    history.failed(job, verdict, at=0.0, **facts)  # type: ignore[arg-type]
    return history.advise(job, verdict, at=0.0).retry


def test_a_lasting_failure_is_not_retried() -> None:
    history = FailureHistory()
    history.failed("a", LASTING, at=0.0)
    decision = history.advise("a", LASTING, at=0.0)
    assert decision.sentence == "no retry: missing-key would repeat"
    assert not decision.retry


def test_fixed_retries_count_and_nothing_else() -> None:
    history, tries = FailureHistory(), []
    for _ in range(4):
        history.failed("a", LASTING, at=0.0)
        tries.append(history.advise("a", LASTING, at=0.0, rule=Fixed(3)).retry)
    assert tries == [True, True, True, False]


def test_an_unknown_failure_is_tried_once_more() -> None:
    history = FailureHistory()
    assert [failed(history, UNKNOWN), failed(history, UNKNOWN)] == [True, False]


def test_a_transient_failure_is_tried_again_after_a_growing_wait() -> None:
    history, waits = FailureHistory(), []
    for _ in range(3):
        history.failed("a", NETWORK, at=0.0)
        waits.append(history.advise("a", NETWORK, at=0.0, rule=Patience(repeats=9)).wait_s)
    assert waits == [30.0, 60.0, 120.0]


def test_the_same_transient_failure_three_times_in_a_row_is_not_transient() -> None:
    history = FailureHistory()
    assert [failed(history, NETWORK) for _ in range(3)] == [True, True, False]
    decision = history.advise("a", NETWORK, at=0.0)
    assert decision.sentence == "no retry: connection-lost happened 3 times in a row"


def test_all_transient_failures_together_are_bounded() -> None:
    history = FailureHistory()
    answers = [failed(history, [NETWORK, ECC][turn % 2]) for turn in range(6)]
    assert answers == [True] * 5 + [False]


def test_a_lack_is_retried_only_if_more_can_be_given() -> None:
    history = FailureHistory()
    history.failed("a", OOM, at=0.0)
    assert history.advise("a", OOM, at=0.0).sentence == (
        "no retry: it needs more gpu memory, which is not available"
    )
    decision = history.advise("a", OOM, at=0.0, can_give=frozenset({"gpu memory"}))
    assert (decision.retry, decision.more) == (True, "gpu memory")


def test_unknown_failures_of_a_careless_user_are_not_retried() -> None:
    history = FailureHistory()
    for number in range(5):
        history.failed(f"old-{number}", LASTING, at=0.0, user="eve")
    history.failed("new", UNKNOWN, at=0.0, user="eve")
    assert not history.advise("new", UNKNOWN, at=0.0, user="eve").retry
    assert history.advise("new", UNKNOWN, at=0.0, user="bob").retry
    assert history.counts_of_user("eve") == {Kind.DETERMINISTIC: 5, Kind.UNKNOWN: 1}


def test_a_bad_node_is_avoided_for_one_half_life() -> None:
    history = FailureHistory(half_life_s=6 * HOUR)
    history.failed("a", LOST, at=0.0, nodes=["n1"])
    assert history.avoid(0.0) == history.avoid(6 * HOUR) == ("n1",)
    assert history.avoid(6 * HOUR + 1) == ()
    assert history.score("n1", 12 * HOUR) == pytest.approx(0.25)
    assert history.advise("a", LOST, at=1.0).avoid == ("n1",)


def test_a_bad_device_is_blamed_and_not_its_node() -> None:
    history = FailureHistory()
    history.failed("a", ECC, at=0.0, nodes=["n1"], devices=["n1:3"])
    assert history.avoid(0.0) == ("n1:3",)


def test_nodes_share_the_blame() -> None:
    history = FailureHistory()
    history.failed("a", LOST, at=0.0, nodes=["n1", "n2", "n3"])
    history.failed("b", LOST, at=0.0, nodes=["n3", "n4", "n5"])
    assert history.avoid(0.0) == ("n3",)


def test_a_job_that_fails_the_same_way_everywhere_spoils_no_nodes() -> None:
    history = FailureHistory()
    for number in range(5):
        history.failed("a", NETWORK, at=0.0, nodes=[f"n{number}"])
        history.failed("b", LASTING, at=0.0, nodes=[f"n{number}"])
    assert history.avoid(0.0) == ()


def test_a_job_that_ends_well_is_forgotten_and_forgives() -> None:
    history = FailureHistory()
    history.failed("a", LOST, at=0.0, nodes=["n1"])
    history.finished("a", at=0.0, nodes=["n1", "n2"])
    assert history.counts("a") == {}
    assert history.score("n1", 0.0) == 0.5


def test_a_moment_that_goes_back_changes_no_score() -> None:
    history = FailureHistory()
    history.failed("a", LOST, at=100.0, nodes=["n1"])
    assert history.score("n1", 50.0) == 1.0


def test_memory_is_bounded_and_forgets_the_oldest() -> None:
    history = FailureHistory(limit=10)
    for number in range(100):
        history.failed(f"j{number}", LOST, at=0.0, user=f"u{number}", nodes=[f"n{number}"])
    assert len(history.avoid(0.0)) == 10
    assert history.counts("j0") == history.counts_of_user("u0") == {}
    assert history.counts("j99") == {Kind.TRANSIENT: 1}


def test_a_memory_without_sense_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="a half-life, a limit and a threshold above 0"):
        FailureHistory(half_life_s=0.0)

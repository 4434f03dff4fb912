"""Past failures of jobs, users and nodes, and the retry decisions that follow."""

import pytest

from treadle.core.errors import InvalidInputError
from treadle.core.retry import Answer
from treadle.failures.classifier import classify
from treadle.failures.failure_history import FailureHistory, Patience
from treadle.failures.verdict import Exit, Verdict

HOUR = 3600.0
LASTING = classify("KeyError: 'x'")
OOM = classify("torch.OutOfMemoryError: CUDA out of memory.")
NETWORK = classify("ConnectionResetError: [Errno 104] Connection reset by peer")
ECC = classify("RuntimeError: CUDA error: uncorrectable ECC error encountered")
LOST = classify("srun: error: Node failure on c1")
UNKNOWN = classify("", Exit.of(1))


def failed(
    history: FailureHistory, verdict: Verdict, job: str = "a", user: str = "", repeats: int = 3
) -> Answer:
    """What becomes of a job after one more failure."""
    history.failed(job, verdict, at=0.0, user=user)
    return history.advise(job, verdict, at=0.0, user=user, patience=Patience(repeats=repeats))


@pytest.mark.parametrize(
    ("verdicts", "again"),
    [
        ([LASTING], [False]),
        ([OOM], [False]),  # it needs more memory, which nobody gives it
        ([UNKNOWN] * 2, [True, False]),
        ([NETWORK] * 3, [True, True, False]),  # three times in a row are not transient
        ([NETWORK, ECC] * 3, [True] * 5 + [False]),  # all transient ones together
    ],
)
def test_a_retry_follows_from_the_class_and_from_what_happened_before(verdicts, again) -> None:
    history = FailureHistory()
    assert [failed(history, verdict).again for verdict in verdicts] == again


def test_a_transient_failure_is_tried_again_after_a_growing_wait() -> None:
    history = FailureHistory()
    waits = [failed(history, NETWORK, repeats=9).wait_s for _ in range(3)]
    assert waits == [30.0, 60.0, 120.0]


def test_unknown_failures_of_a_careless_user_are_not_retried() -> None:
    history = FailureHistory()
    for number in range(5):
        failed(history, LASTING, f"old-{number}", "eve")
    assert not failed(history, UNKNOWN, "hers", "eve").again
    assert failed(history, UNKNOWN, "his", "bob").again


def test_a_bad_node_is_avoided_for_one_half_life() -> None:
    history = FailureHistory(half_life_s=6 * HOUR)
    history.failed("a", LOST, at=0.0, nodes=["n1"])
    assert history.avoid(0.0) == history.avoid(6 * HOUR) == ("n1",)
    assert history.avoid(6 * HOUR + 1) == ()
    assert history.score("n1", 12 * HOUR) == pytest.approx(0.25)
    assert history.advise("a", LOST, at=1.0, patience=Patience()).avoid == ("n1",)


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


def test_a_moment_that_goes_back_changes_no_score() -> None:
    history = FailureHistory()
    history.failed("a", LOST, at=100.0, nodes=["n1"])
    assert history.score("n1", 50.0) == 1.0


def test_memory_is_bounded_and_forgets_the_oldest() -> None:
    history = FailureHistory(limit=10)
    for number in range(100):
        history.failed(f"j{number}", LOST, at=0.0, user=f"u{number}", nodes=[f"n{number}"])
    assert len(history.avoid(0.0)) == 10
    saved = history.saved()
    assert [len(rows) for rows in saved.values()] == [10, 10, 10]  # type: ignore[arg-type]
    again = FailureHistory()
    again.restore(saved)
    assert again.saved() == saved


def test_a_memory_without_sense_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        FailureHistory(half_life_s=0.0)

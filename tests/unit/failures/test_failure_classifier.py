"""Root causes before their consequences, exit statuses, ranks, survived failures."""

import pytest

from treadle.core.errors import InvalidInputError
from treadle.failures.classifier import classify, classify_ranks
from treadle.failures.verdict import Advice, Evidence, Exit, Kind

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\n'
KEY = TRACEBACK + "KeyError: 'x'\n"
OOM = TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
NCCL = "[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout\n"
STEPS = "".join(f"step {number} loss 2.0\n" for number in range(5))


def test_a_verdict_says_what_happened_where_and_what_to_do() -> None:
    verdict = classify("loading\n" + KEY + "bye\n", Exit.of(1))
    assert (verdict.kind, verdict.rule) == (Kind.DETERMINISTIC, "missing-key")
    assert verdict.evidence == Evidence("KeyError: 'x'", 2)
    assert verdict.advice == Advice(retry=False)
    assert verdict.sentence.endswith(".")


@pytest.mark.parametrize("log", [NCCL + KEY, KEY + NCCL])
def test_a_collective_that_timed_out_is_the_echo_of_an_exception(log: str) -> None:
    assert classify(log, Exit.by("SIGABRT")).rule == "missing-key"


def test_a_cause_of_one_rank_wins_over_what_the_others_noticed() -> None:
    logs = {
        "0": NCCL,
        "1": "ConnectionResetError: [Errno 104] Connection reset by peer\n",
        "7": OOM,
    }
    verdict = classify_ranks(logs, {"": Exit.of(1)})
    assert verdict.rule == "gpu-out-of-memory"
    assert verdict.evidence is not None
    assert verdict.evidence.source == "7"


def test_the_rank_that_the_launcher_saw_fail_first_wins_among_equals() -> None:
    report = "Root Cause (first observed failure):\n[0]:\n  rank      : 3 (local_rank: 3)\n"
    logs = {"0": KEY + report, "3": TRACEBACK + "TypeError: no\n"}
    assert classify_ranks(logs).rule == "wrong-type"


def test_an_earlier_moment_wins_among_equals() -> None:
    logs = {
        "0": "2026-01-01 10:00:09 ERROR\n" + KEY,
        "1": "2026-01-01 10:00:02 ERROR\n" + TRACEBACK + "TypeError: no\n",
    }
    assert classify_ranks(logs).rule == "wrong-type"


@pytest.mark.parametrize(
    ("ended", "kind", "rule"),
    [
        (Exit.of(137), Kind.UNKNOWN, "killed"),
        (Exit.of(-9), Kind.UNKNOWN, "killed"),
        (Exit.by("kill", known_reason="oom-killed"), Kind.RESOURCE, "host-out-of-memory"),
        (Exit.by("SIGKILL", known_reason="preempted"), Kind.TRANSIENT, "preempted"),
        (Exit.by("9", known_reason="time-limit"), Kind.RESOURCE, "time-limit"),
        (Exit.of(1, known_reason="node-lost"), Kind.TRANSIENT, "node-lost"),
        (Exit.of(143, known_reason="cancelled"), Kind.UNKNOWN, "cancelled"),
        (Exit.of(143), Kind.TRANSIENT, "asked-to-stop"),
        (Exit.of(139), Kind.DETERMINISTIC, "segmentation-fault"),
        (Exit.of(127), Kind.DETERMINISTIC, "command-not-found"),
        (Exit.of(75), Kind.TRANSIENT, "asked-for-retry"),
        (Exit.of(1), Kind.UNKNOWN, "unexplained"),
        (Exit.of(0), Kind.UNKNOWN, "finished"),
    ],
)
def test_an_exit_status_speaks_where_the_log_is_silent(ended: Exit, kind: Kind, rule: str) -> None:
    verdict = classify("step 1 loss 2.0\n", ended)
    assert (verdict.kind, verdict.rule) == (kind, rule)


def test_a_kill_is_the_scheduler_s_or_the_kernel_s_by_what_the_log_says() -> None:
    kernel = "Memory cgroup out of memory: Killed process 7 (python) total-vm:1kB\n"
    slurm = "slurmstepd: error: *** JOB 1 ON c1 CANCELLED AT 02:10:33 DUE TO PREEMPTION ***\n"
    assert classify(kernel, Exit.of(137)).rule == "host-out-of-memory"
    assert classify(slurm, Exit.of(137)).rule == "preempted"


def test_what_the_scheduler_knows_wins_over_the_log() -> None:
    assert classify(KEY, Exit.of(1, known_reason="preempted")).rule == "preempted"


def test_nothing_failed_where_the_status_is_zero() -> None:
    verdict = classify(KEY, Exit.of(0))
    assert (verdict.rule, verdict.advice.retry) == ("finished", False)
    assert classify_ranks({"0": KEY}, {"0": Exit.of(0), "1": Exit.of(1)}).rule == "missing-key"


@pytest.mark.parametrize(
    "log",
    [
        "CUDA error caught: torch.OutOfMemoryError\n" + STEPS,
        "torch.OutOfMemoryError: CUDA out of memory.\nskipping this batch\n",
        "WARNING could not allocate, trying again\n" + OOM,
        OOM + STEPS * 200,
    ],
)
def test_a_failure_that_the_job_survived_is_no_reason(log: str) -> None:
    assert classify(log, Exit.of(1)).kind is Kind.UNKNOWN


def test_a_block_of_late_output_below_a_traceback_is_no_survival() -> None:
    assert classify(OOM + STEPS * 10, Exit.of(1)).rule == "gpu-out-of-memory"


def test_progress_between_two_tracebacks_shows_that_the_first_was_survived() -> None:
    assert classify(OOM + STEPS + KEY, Exit.of(1)).rule == "missing-key"
    assert classify(OOM + KEY, Exit.of(1)).rule == "gpu-out-of-memory"


def test_quoted_source_code_is_not_a_message() -> None:
    log = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
    log += '    raise Stop("No space left on device")\nacme.Stop: at once\n'
    assert classify(log, Exit.of(1)).kind is Kind.UNKNOWN


def test_evidence_is_one_line_of_bounded_length() -> None:
    verdict = classify(TRACEBACK + "ValueError: " + "x" * 100_000)
    assert verdict.evidence is not None
    assert len(verdict.evidence.text) <= 300


def test_an_exit_that_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"'SIGFOO' is no signal; expected a name such as"):
        Exit.by("SIGFOO")
    with pytest.raises(
        InvalidInputError, match=r"unknown exit reason 'tired'; expected one of oom-killed"
    ):
        Exit.of(1, known_reason="tired")

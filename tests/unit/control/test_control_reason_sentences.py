"""Every sentence of the controller's reasons, reviewed as a whole; other tests assert codes."""

import pytest

from treadle.control.api.reasons import CODES, because
from treadle.control.api.sentences import advice, clause
from treadle.core.reasons import CODES as CORE
from treadle.core.reasons import Number

SENTENCES: tuple[tuple[str, dict[str, Number], str], ...] = (
    ("broken", {"because": "job 3 failed"}, "can never start: job 3 failed"),
    (
        "capacity",
        {"because": "it asks for 9 GPUs and the cluster has 4"},
        "no node is large enough yet: it asks for 9 GPUs and the cluster has 4",
    ),
    ("held", {}, "on hold by its user"),
    (
        "dependency",
        {"after": (("job", "3", "running"), ("array", "4", "pending")), "fails": ""},
        "starts after job 3 (running), array 4 (pending)",
    ),
    (
        "dependency",
        {"after": (("job", "3", "running"),), "fails": "3"},
        "starts after job 3 (running); job 3 will probably reach its time limit first",
    ),
    (
        "array",
        {"array": "7", "limit": 2, "running": 2, "before": 3},
        "array 7 may run 2 jobs at once (2 running, 3 waiting before it)",
    ),
    (
        "launch",
        {"because": "no processes are left", "in_s": 8.0},
        "it could not be launched: no processes are left; tried again in 8 s",
    ),
    (
        "lost-early",
        {"attempts": 5, "in_s": 8.0},
        "its last 5 attempts were lost within seconds; tried again in 8 s",
    ),
    ("daemon-draining", {}, "the daemon is draining and starts no jobs"),
    ("store", {"because": "disk full"}, "the store cannot be written (disk full)"),
    ("machine", {"because": "this machine cannot launch jobs"}, "this machine cannot launch jobs"),
    (
        "policy",
        {"policy": "afs", "because": "division by zero"},
        "the policy afs fails: division by zero",
    ),
    (
        "away",
        {"drained": ("n0", "n1"), "lost": ("n2",), "because": "", "undrain": ("n0",)},
        "the nodes that it needs are away: nodes n0, n1 drained, node n2 lost",
    ),
    (
        "bound-away",
        {"nodes": ("n0",), "away": "drained", "undrain": ("n0",)},
        "its files are on n0, which is drained",
    ),
    (
        "closed",
        {"asked": 2, "open": 1, "devices": ("n0:1",), "because": "an admin avoids n0:1"},
        "it needs 2 GPUs and 1 GPU is open: an admin avoids n0:1",
    ),
    ("releasing", {"size": 2, "jobs": ("3",)}, "waiting for job 3 to release 2 GPUs"),
    (
        "resizing",
        {"size": 1, "live": True, "for_job": "5", "stuck": ""},
        "changing to 1 GPU for job 5",
    ),
    (
        "resizing",
        {"size": 4, "live": False, "for_job": "", "stuck": ""},
        "restarting on 4 GPUs",
    ),
    (
        "launching",
        {"stuck": "it waits for the file system /mnt"},
        "it waits for the file system /mnt",
    ),
    (
        "leaving",
        {"by": "policy", "for_job": "5", "in_s": 20.0, "grace_s": 30.0, "stuck": ""},
        "preempted for job 5; it has 20 s to stop",
    ),
    (
        "leaving",
        {"by": "cancel", "for_job": "", "in_s": 0.0, "grace_s": 30.0, "stuck": ""},
        "cancelled; its 30 s to stop are over, and it is killed",
    ),
    (
        "node-lost",
        {"nodes": ("n0",), "stuck": "", "by": "", "resumable": True},
        (
            "node n0 was lost; what is left of it is being stopped; then it runs again from its "
            "last checkpoint"
        ),
    ),
    ("over", {"since_s": 4.0, "late": False}, "it ended its training 4 s ago and is about to end"),
    ("ending", {}, "it has ended; the store is being written"),
    ("succeeded", {}, "exit code 0"),
    (
        "failed",
        {"exit": "1", "because": "The GPU ran out of memory", "failures": 3, "given_up": ""},
        "exit code 1: The GPU ran out of memory (tried 3 times)",
    ),
    ("cancelled", {"by": "ann"}, "cancelled by ann"),
    ("timeout", {"limit_s": 60.0}, "reached its time limit of 60 s"),
    (
        "there",
        {"device": "n0:1", "phase": "running", "since_s": 9.0},
        "it is on n0:1, running for 9 s",
    ),
    (
        "device-closed",
        {"device": "n0:1", "because": "an admin avoids it"},
        "n0:1 takes no jobs: an admin avoids it",
    ),
    (
        "other-type",
        {"device": "n0:1", "has": "A100", "asked": "h200"},
        "n0:1 is of type A100, and the job asks for h200",
    ),
    (
        "other-memory",
        {"device": "n0:1", "has_gib": 40.0, "asked_gib": 60.0},
        "n0:1 has 40 GiB, and the job needs 60 GiB",
    ),
    ("files", {"device": "n0:1", "nodes": ("n1",), "shell": False}, "its files are on n1"),
    (
        "elsewhere",
        {"device": "n0:1", "jobs": ("3",), "devices": ("n0:0",), "exclusive": False},
        "n0:1 is busy (job 3); the job has n0:0",
    ),
    ("not-yet", {"device": "n0:1", "jobs": (), "exclusive": True}, "n0:1 is free"),
    (
        "changed",
        {
            "asked": ("ann submitted job 5 for 1 device",),
            "freed": ("job 2 finished",),
            "from_jobs": ("3",),
            "to_jobs": (),
            "turn": True,
            "policy": "",
        },
        (
            "its reservation began; ann submitted job 5 for 1 device; job 2 finished; taken from "
            "job 3"
        ),
    ),
    (
        "changed",
        {"asked": (), "freed": (), "from_jobs": (), "to_jobs": ("5",), "turn": False, "policy": ""},
        "for job 5",
    ),
)


@pytest.mark.parametrize(("code", "numbers", "said"), SENTENCES)
def test_a_reason_in_words(code: str, numbers: dict[str, Number], said: str) -> None:
    assert clause(because(code, **numbers)) == said


def test_every_code_is_in_one_table_and_reviewed() -> None:
    assert {code for code, _, _ in SENTENCES} == set(CODES)
    assert not CODES.keys() & CORE.keys()


@pytest.mark.parametrize(
    ("code", "numbers", "command"),
    [
        ("held", {}, "treadle release 7"),
        ("away", {"undrain": ("n0", "n1")}, "treadle nodes undrain n0; treadle nodes undrain n1"),
        ("policy", {"policy": "fifo"}, "treadle policy backfill"),
    ],
)
def test_what_can_be_done_is_a_command(code: str, numbers: dict[str, Number], command: str) -> None:
    assert advice(because(code, **numbers), "7") == command

"""Every code has a sentence; sentences.txt has them all, to be read by a person.

TREADLE_UPDATE=1 writes the file again.
"""

import os
from pathlib import Path

import pytest

from treadle.core.job_sentences import advice
from treadle.core.reasons import CODES, Number, Reason
from treadle.core.sentences import details, sentence

SNAPSHOT = Path(__file__).with_name("sentences.txt")
WORDS_MAX = 12  # of an answer
LONGER = ("never-fits", "capacity", "patience", "changed")

# The numbers of each code, as often as it has something else to say.
SAMPLES: dict[str, list[dict[str, Number]]] = {
    "never-fits": [{"because": "it asks for 8 devices and the cluster has 4"}],
    "backoff": [{"failures": 1, "in_s": 40.0}, {"failures": 3, "in_s": 4000.0}],
    "host": [
        {
            "memory_gib": 50.0,
            "cores": 0.0,
            "nodes": (("n0", 10.0, 0.0, 100.0, 0.0, 4, 8), ("n1", 100.0, 0.0, 100.0, 0.0, 0, 8)),
        },
        {"memory_gib": 0.5, "cores": 16.0, "nodes": (("n0", 30.0, 2.0, 64.0, 32.0, 1, 8),)},
    ],
    "avoids": [{"nodes": ("n0",), "in_s": 480.0}],
    "type": [
        {"words": ("h200",), "asked": 1, "free": 0, "total": 4},
        {"words": ("gpu",), "asked": 2, "free": 1, "total": 2},
        {"words": ("any",), "asked": 1, "free": 0, "total": 1, "memory_gib": 80.0},
        {"words": ("any",), "asked": 2, "free": 0, "total": 2, "memory_gib": 80.0},
        {"words": ("cpu",), "asked": 4, "free": 0, "total": 0},
    ],
    "bound": [
        {"nodes": ("n0",), "asked": 2, "free": 1, "by": by}
        for by in ("folder", "checkpoints", "one-node", "")
    ],
    "quota": [
        {"tenant": "vision", "quota": 2.0, "used": 2, "asked": 1},
        {"tenant": "", "quota": 2.5, "used": 2, "asked": 1},
    ],
    "not-lent": [{"tenant": "vision", "asked": 1, "free": 2}],
    "reserved": [{"for_job": "7", "devices": 4, "in_s": 300.0}, {"for_job": "4", "devices": 4}],
    "reservation": [
        {"devices": 4, "free": 1, "in_s": 300.0, "holders": ("2", "3")},
        {"devices": 1, "free": 0, "holders": ()},
    ],
    "limit": [
        {"who": "ann", "what": "devices", "most": 4, "asked": 2},
        {"who": "ann", "what": "jobs", "most": 1, "asked": 1},
        {"who": "@vision", "what": "devices", "most": 1, "asked": 2},
    ],
    "share": [{"user": "ann", "others": ("bob",)}, {"user": "ann", "others": ("bob", "cleo")}],
    "priority": [{"count": 1, "priority": 2}, {"count": 3, "priority": 2}],
    "order": [{"first_job": "1", "asked": 4, "free": 2}],
    "overtaking": [{"first_job": "1", "takes_s": 600.0, "in_s": 120.0}],
    "fragmentation": [{"asked": 4, "free": 6, "most": 3}],
    "devices": [
        {"asked": 1, "free": 0, "total": 1, "holders": ("4",)},
        {"asked": 1, "free": 0, "total": 8, "holders": ("1", "2", "3", "5")},
        {"asked": 4, "free": 2, "total": 8, "holders": ("9",)},
        {"asked": 1, "free": 0, "total": 0, "holders": ()},
    ],
    "dedicated": [
        {"asked": 4, "free": 6, "usable": 6, "large": 4},
        {"asked": 2, "free": 6, "usable": 1, "large": 4},
        {"asked": 2, "free": 6, "usable": 0, "large": 4},
    ],
    "locality": [{"asked": 8, "nodes": 3, "fewest": 1, "in_s": 300.0}],
    "tries": [
        {"asked": 8, "tries": tries, "level": level, "in_s": 120.0}
        for level, tries in enumerate((1, 4, 9))
    ],
    "set-aside": [{"asked": 4, "have": 2}],
    "trial-queue": [{"asked": 4, "trials": 2, "most": 2, "free": 3}],
    "cost": [
        {"jobs": ("4",), "cost_s": 30.0, "gain_s": 20.0, "in_s": 90.0},
        {"jobs": ("4", "5"), "cost_s": 60.0, "gain_s": 0.0},
    ],
    "rank": [{"ahead": 0}, {"ahead": 1}, {"ahead": 5}],
    "paused": [
        {
            "by": "ann",
            "for_job": "",
            "since_s": 40.0,
            "how": "frozen",
            "memory_gib": 7.5,
            "devices": ("n0:0",),
            "jobs": ("4",),
            "stuck": "",
        },
        {
            "by": "",
            "for_job": "4",
            "since_s": 40.0,
            "how": "suspended",
            "memory_gib": 86.0,
            "devices": ("n0:0",),
            "jobs": (),
            "stuck": "its memory is taken",
        },
        {"by": "", "for_job": "", "since_s": 40.0, "how": "frozen", "devices": ("n0:0",)},
        {
            "by": "",
            "for_job": "",
            "since_s": 40.0,
            "how": "frozen",
            "devices": ("n0:0",),
            "jobs": ("4",),
            "resumed": True,
            "closed": "vm:2: it is avoided by an admin",
        },
    ],
    "pausing": [
        {"by": "ann", "for_job": "", "how": "frozen"},
        {"by": "", "for_job": "4", "how": "suspended"},
    ],
    "preempted": [{"for_job": "4", "since_s": 40.0}, {"for_job": "", "since_s": 40.0}],
    "patience": [
        {"overtakes": 6, "most": 8, "in_s": 14_400.0},
        {"overtakes": 0, "most": 0, "in_s": 14_400.0},
    ],
    "starting": [{"size": 2}],
    "stopping": [{"size": 1}, {"size": 0}],
    "cancelling": [{"size": 1}],
    "trial": [{"asked": 4, "in_s": 180.0}],
    "running": [
        {"size": 4, "least": 4, "most": 4, "asked": 4},
        {"size": 2, "least": 1, "most": 8, "asked": 4},
    ],
    "shares": [{"size": 1, "jobs": ("4",)}, {"size": 2, "jobs": ("2", "3", "5", "8")}],
    "shrunk": [{"size": 2, "for_job": "7"}],
    "could-grow": [{"size": 2, "next": 4, "free": 2, "cost_s": 30.0, "gain_s": 20.0, "in_s": 90.0}],
    "not-grown": [{"size": 1, "because": "rank 1 ended with exit code 1", "in_s": 540.0}],
    "broken": [{"because": "job 3 failed"}],
    "capacity": [{"because": "it asks for 9 GPUs and the cluster has 4"}],
    "held": [{"reasons": ("user",)}, {"reasons": ("user", "after b")}],
    "dependency": [
        {"after": (("job", "3", "running"), ("array", "4", "pending")), "fails": ""},
        {"after": (("job", "3", "running"),), "fails": "3"},
        {"after": (), "fails": ""},
    ],
    "array": [
        {"array": "7", "limit": 2, "running": 2, "held": (), "before": 3},
        {"array": "7", "limit": 2, "running": 1, "held": ("7_0",), "before": 3},
        {"array": "7", "limit": 2, "running": 0, "held": ()},
    ],
    "launch": [{"because": "no processes are left", "in_s": 8.0}],
    "daemon-draining": [{}],
    "store": [{"because": "disk full"}],
    "machine": [{"because": "this machine cannot launch jobs"}],
    "policy": [{"policy": "afs", "because": "division by zero"}],
    "away": [{"drained": ("n0", "n1"), "lost": ("n2",), "because": "", "undrain": ("n0",)}],
    "bound-away": [{"nodes": ("n0",), "away": "drained", "undrain": ("n0",), "by": "checkpoints"}],
    "closed": [
        {
            "asked": 2,
            "open": 1,
            "devices": ("n0:1",),
            "because": "an admin avoids n0:1",
            "opening": (("n0:1", "n0", "avoided"),),
        }
    ],
    "releasing": [{"size": 2, "jobs": ("3",)}],
    "resizing": [
        {"size": 1, "live": True, "for_job": "5", "stuck": ""},
        {"size": 4, "live": False, "for_job": "", "stuck": ""},
    ],
    "launching": [{"stuck": "it waits for the file system /mnt"}],
    "leaving": [
        {"by": "policy", "for_job": "5", "in_s": 20.0, "grace_s": 30.0, "stuck": ""},
        {"by": "cancel", "for_job": "", "in_s": 0.0, "grace_s": 30.0, "stuck": ""},
        {"by": "user", "for_job": "", "in_s": 20.0, "grace_s": 30.0, "stuck": ""},
    ],
    "node-lost": [
        {"nodes": ("n0",), "stuck": "", "by": "policy", "resumable": True},
        {"nodes": ("n0", "n1"), "stuck": "", "by": "cancel", "resumable": True},
    ],
    "over": [{"since_s": 4.0, "late": False}, {"since_s": 40.0, "late": True}],
    "ending": [{}],
    "succeeded": [{}],
    "failed": [
        {
            "exit": 1,
            "signal": "",
            "because": "The GPU ran out of memory",
            "failures": 3,
            "given_up": "",
            "most": 5,
            "kind": "resource",
            "more": "gpu memory",
            "memory_gib": 0.0,
            "retriable": True,
        },
        {
            "exit": 137,
            "signal": "SIGKILL",
            "because": "",
            "failures": 3,
            "given_up": "repeats",
            "most": 3,
            "kind": "transient",
        },
        {"failures": 1},
    ],
    "cancelled": [{"by": "ann"}],
    "timeout": [{"limit_s": 60.0}],
    "changed": [
        {
            "asked": ("ann submitted job 5 for 1 device",),
            "freed": ("job 2 finished",),
            "from_jobs": ("3",),
            "to_jobs": (),
            "turn": True,
            "policy": "",
        },
        {"asked": (), "freed": (), "from_jobs": (), "to_jobs": ("5",), "turn": False, "policy": ""},
        {"asked": (), "freed": (), "from_jobs": (), "to_jobs": (), "turn": False, "policy": "afs"},
    ],
    "members": [{"states": (("RUNNING", 2), ("PENDING", 1000))}],
}


def rendered() -> str:
    lines = []
    for code, samples in SAMPLES.items():
        lines.append(code)
        for numbers in samples:
            reason = Reason(code, numbers)
            told = details(reason, "GPU", {"4": "rl-a"})
            lines.append(f"  {sentence(reason, 'GPU', {'4': 'rl-a'})}")
            lines += [f"    {label:<9} {fact}" for label, fact in told]
            lines += [f"    try       {text}" for text in (advice(reason, "9"),) if text]
    return "\n".join(lines) + "\n"


def test_the_sentences_are_those_that_were_read() -> None:
    if os.environ.get("TREADLE_UPDATE"):
        SNAPSHOT.write_text(rendered())
    assert rendered() == SNAPSHOT.read_text()


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_sentence_from_the_numbers_of_its_contract(code: str) -> None:
    for numbers in SAMPLES[code]:
        assert set(numbers) <= set(CODES[code])
        answer = sentence(Reason(code, numbers))
        assert len(answer.split()) <= WORDS_MAX or code in LONGER, answer
        assert all(len(f"{label} {fact}") < 90 for label, fact in details(Reason(code, numbers)))


def test_samples_have_every_number_of_the_contract() -> None:
    for code, names in CODES.items():
        assert {name for numbers in SAMPLES[code] for name in numbers} == set(names)

"""The fields of a job as people write them: one row for job files, options and Python code.

A row says how a field is called, which field of JobRequest it is, how its text is read and written,
and its option on the command line. Run lines, commands, variables and secrets are no such texts;
jobfile.py reads them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from treadle.core.errors import InvalidInputError
from treadle.wire import notation
from treadle.wire.notation import shown

RETRIES_MAX = 100
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_UNITS_S = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


@dataclass(frozen=True, slots=True)
class Kind:
    """How a text is read and written."""

    expected: str  # as an error calls it
    read: Callable[[str, str], Any]  # the text, and where it stands
    write: Callable[[Any], str] = str
    unit: str = ""  # behind a number that Python code gives: 16 is 16G
    blank: Any = None  # what an empty text in a file or in Python stands for; None: nothing
    listed: bool = False  # several texts may stand for it, or one with commas
    repeated: bool = False  # its option may be given several times


@dataclass(frozen=True, slots=True)
class Field:
    options: str  # on the command line; the first long one gives the field its name
    kind: Kind
    metavar: str
    help: str
    target: str = ""  # in JobRequest; empty: the same
    called: str = ""  # in a job file and in Python, if not as the option

    @property
    def name(self) -> str:
        return self.called or self.option[2:].replace("-", "_")

    @property
    def option(self) -> str:
        return next(word for word in self.options.split() if word[:2] == "--").partition("/")[0]

    @property
    def of_request(self) -> str:
        return self.target or self.name

    def value(self, text: str, where: str) -> object:
        """What a text in a file or in Python code stands for."""
        kind = self.kind
        return kind.blank if not text and kind.blank is not None else kind.read(text, where)


def _kept(text: str, where: str) -> str:  # noqa: ARG001
    return text


def _flag(text: str, where: str) -> bool:
    if text.strip().lower() not in _WORDS:
        raise InvalidInputError(f"{where}: expected true or false, found {shown(text)}")
    return _WORDS[text.strip().lower()]


def _retries(text: str, where: str) -> int:
    return notation.count(text, where, most=RETRIES_MAX)


def number_text(value: float) -> str:
    return f"{value:.9f}".rstrip("0").rstrip(".")


def duration_text(seconds: float) -> str:
    if seconds != int(seconds):
        return f"{number_text(seconds)}s"
    left, text = int(seconds), ""
    for unit, unit_s in _UNITS_S:
        count, left = divmod(left, unit_s)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def memory_text(gib: float) -> str:
    mib = gib * 1024
    whole = gib != int(gib) and mib == int(mib)
    return f"{number_text(mib)}M" if whole else f"{number_text(gib)}G"


FLAG = Kind("true or false", _flag)
TEXT = Kind("a name", _kept)
NAME = Kind("a name", notation.job_name)
FOLDER = Kind("a folder", _kept)
SIZES = Kind(
    "a number such as 4, a range such as 2..8, or sizes such as [1, 2, 4]",
    notation.devices,
    listed=True,
)
TYPES = Kind("a type such as h200", notation.device_type, blank="", listed=True)
RANKS = Kind("auto, device or one", notation.ranks)
PRIORITY = Kind("a whole number or a word", notation.priority)
DURATION = Kind("a duration such as 12h", notation.duration, duration_text)
MEMORY = Kind("an amount such as 16G", notation.memory, memory_text, unit="G")
CORES = Kind("a number of cores", notation.cpus, number_text)
ELASTIC = Kind("auto or no", notation.elastic, blank="")
NOTIFY = Kind("when to tell you, such as [end, fail]", notation.moments, blank="", listed=True)
SIGNAL = Kind("a signal such as SIGTERM", notation.stop_signal)
RETRIES = Kind("a whole number", _retries)
JOBS = Kind(
    "ids such as [12, 13]", notation.identities, ",".join, blank=(), listed=True, repeated=True
)
ARRAY = Kind("numbers such as 0-99%8", notation.array_text, blank="")

FIELDS = (
    Field("-n --name --job-name", NAME, "", "Name of the job."),
    Field(
        "-d --devices --gpus",
        SIZES,
        "4|2..8|1,2,4",
        "Number of devices; of several, Treadle chooses.",
    ),
    Field(
        "--device-type",
        TYPES,
        "h200|a100,h200|gpu|cpu|any",
        "Types of device, by parts of their names; default: GPUs where there are some.",
    ),
    Field("--ranks", RANKS, "auto|device|one", "Processes to start: one, or one per device."),
    Field("-C --workdir --chdir", FOLDER, "DIR", "Working directory; default: this one."),
    Field("--tenant", TEXT, "", "Team that the usage is charged to."),
    Field("-p --priority", PRIORITY, "N|low|normal|high|urgent", "Default: normal."),
    Field(
        "--guaranteed/--opportunistic",
        FLAG,
        "",
        "Whether it has a share of its tenant's quota, or takes what is idle and may be paused.",
    ),
    Field(
        "--resumable/--not-resumable", FLAG, "", "Whether the job can continue from a checkpoint."
    ),
    Field(
        "--preemptible/--not-preemptible",
        FLAG,
        "",
        "Whether the scheduler may take devices from it for others.",
    ),
    Field(
        "-t --time-limit --time",
        DURATION,
        "12h",
        "Running time limit: 90s, 45m, 2d, 1-12:00:00.",
        "time_limit_s",
    ),
    Field(
        "--memory",
        MEMORY,
        "16G",
        "Host memory of the whole job on a node: 512M, 16G.",
        "memory_gib",
    ),
    Field("--cpus", CORES, "4", "Cores of the whole job on a node."),
    Field(
        "--gpu-memory",
        MEMORY,
        "20G",
        "Memory of each GPU that the job needs; a job shares a GPU only if this is known.",
        "gpu_memory_gib",
    ),
    Field("--exclusive/--not-exclusive", FLAG, "", "Whether the job has its devices for itself."),
    Field(
        "--warm/--no-warm",
        FLAG,
        "",
        "Whether it may start from an interpreter that has its modules imported.",
    ),
    Field(
        "--elastic",
        ELASTIC,
        "auto|no",
        "auto: run a PyTorch script for one device on many, resized while it runs.",
    ),
    Field(
        "--notify --mail-type",
        NOTIFY,
        "end,fail",
        "When you are told of it: start, end, fail, preempt, none; default: as configured.",
    ),
    Field("--grace", DURATION, "30s", "Time between the stop signal and SIGKILL.", "grace_s"),
    Field("--stop-signal", SIGNAL, "SIGTERM", "Signal that asks the job to stop."),
    Field(
        "--retries",
        RETRIES,
        "N",
        "Retry unknown failures too, N times; default: 3 times, transient ones only.",
    ),
    Field("--after", JOBS, "JOB", "Start only after JOB has succeeded."),
    Field("--after-any", JOBS, "JOB", "Start only after JOB has ended."),
    Field("-a --array", ARRAY, "0-99%8", "One job per index, at most 8 at a time."),
    Field("--model", TEXT, "", "Model name; jobs of one model share their history."),
    Field("--estimate", DURATION, "3h", "Estimated run time.", "estimate_s"),
    Field("--hold/--no-hold", FLAG, "", "Do not start before treadle release.", called="held"),
    Field(
        "--wait-for-capacity/--no-wait-for-capacity",
        FLAG,
        "",
        "Queue the job even if it is too large for the cluster.",
    ),
)
BY_NAME = {each.name: each for each in FIELDS}

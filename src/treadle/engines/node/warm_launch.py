"""Begins a warm interpreter (warm_template.py) as the job's user, in a group of its own.

Part of the supervisor: it imports the standard library alone.
"""

import fcntl
import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from treadle.engines.node.processes import start_of
from treadle.engines.node.ranks import become_user, execute, set_up
from treadle.engines.node.scope import RecordedScope, scope_of

ROOM = "TREADLE_WARM_ROOM"
ROOM_BYTES = 1 << 14  # for the environment of a rank, where /proc shows it
TITLE_BYTES = 1 << 12  # for its command
PRINTED_BYTES = 1 << 20  # what imports may print
# The program. It leaves no name behind: `__main__` is the script's later.
PROGRAM = """\
_n = dict(globals())
import json as _j, os as _o, sys as _s, types as _t
if _s.path and not getattr(_s.flags, "safe_path", False): _s.path.pop(0)
_o.environ.pop("TREADLE_WARM_ROOM", None)
with _o.fdopen(int(_s.argv[1]), "rb") as _f: _d = _j.loads(_f.read())
for _k, _v in _d.pop("sources"):
    for _i in range(_k.count(".") + 1):
        _p = ".".join(_k.split(".")[: _i + 1])
        if _p not in _s.modules: _s.modules[_p] = _m = _t.ModuleType(_p); _m.__path__ = []
    exec(compile(_v, _k, "exec", dont_inherit=True), _s.modules[_k].__dict__)
_r = _s.modules[_k].main
for _k in [_k for _k in _s.modules if _k.partition(".")[0] == "treadle"]: del _s.modules[_k]
_r(_d, _n)
"""
SOURCES = ("warm_imports.py", "warm_script.py", "warm_template.py")


def become_template(order: Mapping[str, Any], report: int, control: int) -> NoReturn:
    """In the new process: execute a warm interpreter."""
    try:
        printed, output = os.pipe2(os.O_NONBLOCK)
        with suppress(OSError):
            fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, PRINTED_BYTES)
        set_up(output, order["cpus"])
        os.close(output)
        scope = scope_of(order["scope"])
        scope.take()
        if isinstance(scope, RecordedScope):
            me = (os.getpid(), start_of(os.getpid()))
            Path(order["scope"]["record"]).write_text(json.dumps([me]))
        content = {
            "sources": _sources(),
            "control": control,
            "printed": printed,
            "argv": order["command"],
            "cwd": order["workdir"],
            "idle_s": order["idle_s"],
            "bytes_max": order["bytes_max"],
        }
        document = os.memfd_create("warm", 0)
        os.write(document, json.dumps(content).encode())
        os.lseek(document, 0, os.SEEK_SET)
        become_user(order)
        os.chdir(order["workdir"])
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # The fork server ignores it.
        for file in (control, printed, document):
            os.set_inheritable(file, True)
        flags = ["-u"] * order["unbuffered"]
        command = [order["command"][0], *flags, "-c", PROGRAM, str(document), "x" * TITLE_BYTES]
        execute(command, {**order["env"], ROOM: "x" * ROOM_BYTES})
    except BaseException as error:  # nothing may unwind into the fork server's code
        with suppress(OSError):
            os.write(report, json.dumps({"failed": str(error)}).encode() + b"\n")
    os._exit(1)


def _sources() -> list[tuple[str, str]]:
    """The warm interpreter's own code: its user may not be able to read our files."""
    package = __name__.rpartition(".")[0]
    return [
        (f"{package}.{name.removesuffix('.py')}", Path(__file__).with_name(name).read_text())
        for name in SOURCES
    ]

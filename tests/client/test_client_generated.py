"""`Client` is `AsyncClient` without the waiting: client.py is generated and never edited.

TREADLE_UPDATE=1 writes it again from asynchronous.py.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from treadle.client import asynchronous

SOURCE = Path(asynchronous.__file__)
GENERATED = SOURCE.with_name("client.py")

DOCSTRING = '''"""The client of the API for ordinary Python.

    with Client() as treadle:
        made = treadle.submit(JobRequest(command=("python", "train.py"), devices="1..4"))
        for piece in treadle.follow_log(made.id):
            ...

Generated from asynchronous.py by tests/client/test_client_generated.py; edit there.
"""
'''
WORDS = {
    r"AsyncGenerator\[(.*), None\]": r"Generator[\1, None, None]",
    r"\basync (def|with|for) ": r"\1 ",
    r"\bawait ": "",
    r"\bAsync(Client|Generator|Iterator)\b": r"\1",
    r"\b__a(enter|exit)__\b": r"__\1__",
    r"\ba(close|closing|read|iter_bytes)\b": r"\1",
    r"\basynccontextmanager\b": "contextmanager",
    r"\bopen_async_client\b": "open_client",
    r"\bsleep_async\b": "sleep",
    # Two blocks of a kind are one.
    r"with (connection\.\w+\(.*\)):\n +with (.*):\n    ": r"with \1, \2:\n",
}


def generated() -> str:
    text = DOCSTRING + SOURCE.read_text().split('"""\n', 1)[1]
    for pattern, word in WORDS.items():
        text = re.sub(pattern, word, text)
    # Without the waiting, some loops, imports and lines can be shorter.
    text = _ruff(text, "check", "--fix-only", "--unsafe-fixes", "--quiet", "--select=UP028,I")
    return _ruff(text, "format")


def _ruff(text: str, *words: str) -> str:
    command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", str(GENERATED), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def test_the_ordinary_client_is_generated_from_the_asynchronous_one():
    text = generated()
    if os.environ.get("TREADLE_UPDATE"):
        GENERATED.write_text(text)
    assert GENERATED.read_text() == text, "run it again with TREADLE_UPDATE=1; edit asynchronous.py"
    assert "async" not in text.replace("asynchronous.py", "")

"""Runs the tests that failed once more, alone: `make test` does so after a run with failures.

Many tests watch real processes against deadlines, beside others on a machine that may be busy with
something else. One that fails there and passes alone is named in the output, to be mended; more
than a few are no accident, and the run has failed without a second try.
"""

import json
import subprocess
import sys
from pathlib import Path

MOST = 10
FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main() -> int:
    try:
        failed = sorted(json.loads(FAILED.read_text(encoding="utf-8")))
    except FileNotFoundError:
        failed = []
    if not 0 < len(failed) <= MOST:
        return 1
    print(f"\n{len(failed)} failed beside others; once more, alone:", flush=True)
    print(*failed, sep="\n", flush=True)
    again = subprocess.run([sys.executable, "-m", "pytest", "-q", "--last-failed"], check=False)
    return again.returncode


if __name__ == "__main__":
    sys.exit(main())

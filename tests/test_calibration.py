"""`benchmarks/calibration.py` reads every trace that Treadle reads, and refuses others in words."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.real_use.replay import said

from treadle.models.lengths.distribution import WIDE

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "calibration.py"
TRACE = "submission_time,duration,num_gpu\n" + "".join(f"{60 * n},100,1\n" for n in range(40))


def calibrate(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, str(SCRIPT), str(folder), *words)
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["mine", "mine.csv.gz", "plain.csv", "generate:poisson?jobs=40"])
def test_a_trace_is_read_by_its_content_whatever_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "mine.csv.gz").write_bytes(gzip.compress(TRACE.encode()))
    (tmp_path / "plain.csv").write_text(TRACE)
    done = calibrate(tmp_path, name)
    assert done.returncode == 0, done.stderr
    assert f"{name}: 40 jobs" in done.stdout


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("absent", "there is no trace absent in"),
        ("other.csv", "begins with 'x,y', which is no known format"),
        ("broken.csv", "broken.csv line 2: could not convert string to float: 'abc'"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_sentence(
    tmp_path: Path, name: str, sentence: str
) -> None:
    (tmp_path / "other.csv").write_text("x,y\n1,2\n")
    (tmp_path / "broken.csv").write_text("submission_time,duration,num_gpu\n1,abc,2\n")
    done = calibrate(tmp_path, name)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_ranges_printed_at_submission_hold_in_a_recorded_hour() -> None:
    rows = said()
    known = [row for row in rows if row.estimate.known]
    assert len(known) > 0.8 * len(rows) > 100
    assert 0.75 <= sum(row.held for row in known) / len(known) <= 0.9
    assert max(row.ratio for row in known) <= 1.05 * WIDE


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--policy", "wave"), "there is no policy 'wave'"),
        (("--processes", "0"), "--processes must be 1 or more, not 0"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(
    tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "mine.csv").write_text(TRACE)
    done = calibrate(tmp_path, "mine", *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_starts_of_jobs_that_wait_are_judged_on_a_queue(tmp_path: Path) -> None:
    """Of every four jobs the last two come in a burst, and jobs of one size take the same time.

    Traces are printed in the order in which they were named, however many run at a time."""
    rows = [f"{400 * (n // 4) + (n % 4 > 1)},{300 + n % 3},1" for n in range(80)]
    (tmp_path / "burst.csv").write_text("submission_time,duration,num_gpu\n" + "\n".join(rows))
    (tmp_path / "mine.csv").write_text(TRACE)
    done = calibrate(tmp_path, "burst.csv", "mine", "--policy", "afs", "--processes", "2")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.index("burst.csv: 80 jobs"), done.stdout.index("mine: 40 jobs")
    assert first < second
    lines = [line.split() for line in done.stdout[first:second].splitlines()]
    (start,) = [words for words in lines if words[:1] == ["start,"]]
    (known,) = [words for words in lines if words[:2] == ["if", "lengths"]]
    assert int(start[5]) == int(known[4]) > 10, "as many ranges"
    assert float(known[5].rstrip("%")) > 90.0, "what is known is known"
    (fair,) = [words for words in lines if words[:2] == ["that", "span"]]
    often = float(fair[5].rstrip("%")) >= float(start[6].rstrip("%"))
    assert often or fair[2] == "100%", "overall ranges that hold as often, if there are any"
    assert "under afs" in done.stdout
    (hindsight,) = [words for words in lines if words[:2] == ["with", "hindsight"]]
    assert float(hindsight[2].rstrip("%")) > 50.0

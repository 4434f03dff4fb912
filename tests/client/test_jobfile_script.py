"""Scripts that carry their own options."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.client.jobfile_script import Line, read_script
from treadle.core.errors import InvalidInputError


def said(read: Callable[[], object]) -> str:
    """The sentence that refuses, or nothing; any other exception is a failure."""
    try:
        read()
    except InvalidInputError as error:
        return str(error)
    return ""


SCRIPT = """\
#!/bin/bash
# Trains a network.
#TREADLE --devices 2 --name "my net"

#TREADLE --time-limit 2h
python train.py
#TREADLE --devices 8
"""

SLURM = """\
#!/bin/bash -l
#SBATCH --job-name=bert
#SBATCH --gres=gpu:a100:4 --time=1-00:30
#SBATCH -a 0-9%2
#SBATCH -D /data
#SBATCH --dependency=afterok:12:13,afterany:14
#SBATCH --nice=100
#SBATCH --partition=gpu -N 2 --exclusive
#SBATCH --dependency=singleton
srun python train.py
"""


def test_only_the_leading_comments_count(tmp_path: Path) -> None:
    script = read_script(str(tmp_path / "train.sh"), SCRIPT)
    assert script.treadle == (
        Line("train.sh line 3", ("--devices", "2", "--name", "my net")),
        Line("train.sh line 5", ("--time-limit", "2h")),
    )
    assert script.slurm.fields == {}


def test_slurms_lines_are_read_as_far_as_they_go_and_the_rest_is_said() -> None:
    draft = read_script("job.sh", SLURM).slurm
    assert draft.fields == {
        "name": "bert",
        "devices": "4",
        "time_limit_s": 88_200.0,
        "array": "0-9%2",
        "workdir": "/data",
        "after": ("12", "13"),
        "after_any": ("14",),
    }
    assert draft.notes == [
        "job.sh line 7: #SBATCH --nice=100 is ignored; use --priority",
        "job.sh line 8: #SBATCH --partition=gpu is not supported and ignored",
        "job.sh line 8: #SBATCH -N 2 is not supported and ignored",
        "job.sh line 8: #SBATCH --exclusive is not supported and ignored",
        "job.sh line 9: #SBATCH --dependency=singleton is not supported and ignored",
    ]


@pytest.mark.parametrize(
    ("option", "fields"),
    [
        ("-J x", {"name": "x"}),
        ("-Jx", {"name": "x"}),
        ("--job-name x", {"name": "x"}),
        ("--gpus=2", {"devices": "2"}),
        ("-G a100:2", {"devices": "2"}),
        ("--gres=gpu", {"devices": "1"}),
        ("--gres=gpu:v100", {"devices": "1"}),
        ("--gres=shard:2", {}),
        ("-t 90", {"time_limit_s": 5400.0}),
        ("-t UNLIMITED", {"time_limit_s": None}),
    ],
)
def test_each_of_slurms_spellings(option, fields) -> None:
    assert read_script("job.sh", f"#SBATCH {option}\n").slurm.fields == fields


def test_mistakes_in_directives_are_named_by_line() -> None:
    for text, line in (("#TREADLE --name 'x", 1), ("\n#SBATCH --time=soon", 2)):
        with pytest.raises(InvalidInputError, match=rf"^job\.sh line {line}: "):
            read_script("job.sh", text)


def test_how_a_script_is_run_follows_its_mode_and_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "job"
    path.write_text("#!/usr/bin/env -S python3 -u\n")
    assert read_script(str(path), path.read_text()).command == (
        "/usr/bin/env",
        "-S python3 -u",
        str(path),
    )
    path.chmod(0o755)
    assert read_script(str(path), path.read_text()).command == (str(path),)
    plain = tmp_path / "plain.sh"
    assert read_script(str(plain), "echo hi").command == ("/bin/bash", str(plain))
    assert read_script(str(tmp_path / "a.py"), "").command == ("python3", str(tmp_path / "a.py"))


def test_a_flood_of_options_is_noted_in_few_lines() -> None:
    notes = read_script("job.sh", "#SBATCH --exclusive\n" * 100).slurm.notes
    assert len(notes) == 21
    assert notes[-1] == "job.sh: 80 more #SBATCH options are ignored"


_BITS = st.sampled_from([
    "#SBATCH ", "#TREADLE ", "\n", "--time", "=", " ", "-J", "-a", "--gres=gpu:", "9", ":", ",",
    "'", "afterok:", "--dependency=", "-", "--",
])  # fmt: skip


@given(st.text(max_size=100) | st.lists(_BITS, max_size=30).map("".join))
def test_any_script_gives_options_or_one_sentence(text) -> None:
    assert "\n" not in said(lambda: read_script("job.sh", text))

"""Paths of a command on a node where the job has a copy of its folder."""

import pytest

from treadle.engines.agent.copies.command_paths import files_run, led_to


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/u/proj/train.py", "/own/train.py"),
        ("/home/u/proj", "/own"),
        ("--data=/home/u/proj/data", "--data=/own/data"),
        ("/home/u/proj/src:/opt:/home/u/proj", "/own/src:/opt:/own"),
        ("cd '/home/u/proj' && ./run", "cd '/own' && ./run"),
        ("/home/u/project/train.py", "/home/u/project/train.py"),
        ("/mnt/home/u/proj/train.py", "/mnt/home/u/proj/train.py"),
        ("file:///home/u/proj", "file:///home/u/proj"),
        ("train.py", "train.py"),
        ("cd /home/u/proj&&ls>/home/u/proj/log|cat", "cd /own&&ls>/own/log|cat"),
    ],
)
def test_only_paths_in_the_folder_are_led_to_the_copy(text: str, expected: str):
    assert led_to(text, "/home/u/proj", "/own") == expected


def test_a_copy_whose_name_has_a_backslash_is_taken_as_it_is():
    assert led_to("/p/a", "/p/", r"/own\1") == r"/own\1/a"
    assert led_to("/a", "/", "/own") == "/a"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("./hello.sh",), ("/p/hello.sh",)),
        (("python3", "/q/train.py", "--out", "/scratch/o"), ("/q/train.py",)),
        (("torchrun", "--log-dir", "/scratch/l", "a/train.py"), ("/p/a/train.py",)),
        (("/q/venv/bin/python", "../q/train.py"), ("/q/venv/bin/python", "/q/train.py")),
        (("/bin/bash", "job"), ("/bin/bash", "/p/job")),
        (("python", "-m", "package", "--out", "/scratch"), ()),
        (("python3.12", "-u", "train.py"), ("/p/train.py",)),
        (("python", "-m", "gen", "--out", "build/gen.py"), ()),
        (("convert", "--out", "build/gen.py"), ()),
        (("shuf", "numbers"), ()),
        (("sh", "-c", "cd /q; python train.py"), ()),
        (("nvidia-smi",), ()),
    ],
)
def test_the_program_and_the_script_of_a_command(
    command: tuple[str, ...], expected: tuple[str, ...]
):
    assert files_run(command, "/p") == expected

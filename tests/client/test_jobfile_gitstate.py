"""What git says of a folder, and what it is kept from doing."""

import shutil
import subprocess
from pathlib import Path

import pytest

from treadle.client.gitstate import git_state
from treadle.repository import git_state as repository_state


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    ran = subprocess.run(
        ["git", *author, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return ran.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_a_clean_folder_has_a_commit_a_branch_and_no_diff(repository: Path) -> None:
    state = git_state(repository)
    assert state is not None
    assert (state.commit, state.branch) == (git(repository, "rev-parse", "HEAD"), "main")
    assert (state.dirty, state.diff, state.cut) == (False, "", False)


def test_changes_to_tracked_files_are_recorded(repository: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    (repository / "untracked.txt").write_text("x\n")
    inside = repository / "inside"
    inside.mkdir()
    state = git_state(inside)
    assert state is not None
    assert state.dirty
    assert "-one\n+two\n" in state.diff
    assert "untracked" not in state.diff


def test_a_diff_is_cut_at_its_limit(repository: Path) -> None:
    (repository / "a.txt").write_text("x" * 10_000)
    state = git_state(repository, diff_bytes_max=1000)
    assert state is not None
    assert (len(state.diff), state.cut, state.dirty) == (1000, True, True)


def test_nothing_is_said_outside_git_or_before_the_first_commit(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None
    assert git_state(tmp_path / "missing") is None
    git(tmp_path, "init", "-q")
    assert git_state(tmp_path) is None


def test_a_repository_cannot_have_its_own_programs_run(repository: Path) -> None:
    trap, sprung = repository / "trap.sh", repository / "sprung"
    trap.write_text(f'#!/bin/sh\ntouch {sprung}\ncat "$1"\n')
    trap.chmod(0o755)
    for key in ("diff.external", "core.fsmonitor", "core.pager", "diff.x.textconv"):
        git(repository, "config", key, str(trap))
    (repository / ".gitattributes").write_text("*.txt diff=x\n")
    (repository / "a.txt").write_text("two\n")
    state = git_state(repository)
    assert state is not None
    assert "+two" in state.diff
    assert not sprung.exists()


@pytest.fixture
def sprung(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that appears when the program `trap` beside it is run."""
    folder = tmp_path_factory.mktemp("trap")
    (folder / "trap").write_text(f"#!/bin/sh\ntouch {folder / 'sprung'}\ncat\n")
    (folder / "trap").chmod(0o755)
    return folder / "sprung"


@pytest.mark.parametrize(
    ("kind", "attributes"), [("clean", ".gitattributes"), ("process", ".git/info/attributes")]
)
def test_a14_no_filter_of_the_repository_is_run(
    repository: Path, sprung: Path, kind: str, attributes: str
) -> None:
    git(repository, "config", f"filter.x.{kind}", str(sprung.with_name("trap")))
    git(repository, "config", "filter.x.required", "true")
    (repository / attributes).parent.mkdir(exist_ok=True)
    (repository / attributes).write_text("*.txt filter=x\n")
    (repository / "a.txt").write_text("two\n")
    state = git_state(repository)
    assert state is not None
    assert "-one\n+two\n" in state.diff
    assert not sprung.exists()


def test_a14_missing_objects_are_not_fetched_by_the_repositorys_command(
    repository: Path, sprung: Path
) -> None:
    blob = git(repository, "rev-parse", "HEAD:a.txt")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": "ssh://nowhere.invalid/x",
        "core.sshCommand": str(sprung.with_name("trap")),
    }.items():
        git(repository, "config", key, value)
    (repository / "a.txt").write_text("two\n")
    state = git_state(repository)
    assert state is not None
    assert not sprung.exists()


def test_a14_the_index_is_read_and_not_written(repository: Path) -> None:
    """A change that was added, in a linked work tree with a split index and old times."""
    linked = repository / "linked"
    git(repository, "worktree", "add", "-q", "-b", "side", str(linked))
    git(linked, "update-index", "--split-index")
    (linked / "a.txt").write_text("two\n")
    git(linked, "add", "a.txt")
    index = repository / ".git" / "worktrees" / "linked" / "index"
    before = index.read_bytes()
    (linked / "a.txt").touch()
    state = git_state(linked)
    assert state is not None
    assert (state.branch, state.dirty) == ("side", True)
    assert "-one\n+two\n" in state.diff
    assert index.read_bytes() == before


def test_a14_how_files_are_compared_is_still_the_repositorys_choice(repository: Path) -> None:
    git(repository, "config", "core.fileMode", "false")
    (repository / "a.txt").chmod(0o755)
    state = git_state(repository)
    assert state is not None
    assert not state.dirty


def test_another_repository_named_by_the_environment_is_not_asked(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    assert git_state(tmp_path_factory.mktemp("plain")) is None


def test_a_git_that_takes_too_long_gives_no_answer(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path_factory.mktemp("programs")
    slow = programs / "git"
    slow.write_text("#!/bin/sh\nsleep 1000\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    assert git_state(repository, time_limit_s=0.1) is None


@pytest.mark.parametrize("failure", ["exit 1", "exec sleep 1000"])
def test_a_diff_that_fails_or_takes_too_long_is_not_known_and_not_empty(
    repository: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    failure: str,
) -> None:
    real, programs = shutil.which("git"), tmp_path_factory.mktemp("programs")
    script = f'case " $* " in *" diff "*) {failure};; esac\nexec {real} "$@"\n'
    (programs / "git").write_text(f"#!/bin/sh\n{script}")
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    state = git_state(repository, time_limit_s=1.0)
    assert state is not None
    assert state.commit
    assert (state.dirty, state.diff, state.cut) == (False, "", True)
    now = repository_state(repository, time_limit_s=1.0)
    assert now is not None
    assert now.diff is None

import shutil
import subprocess
from pathlib import Path

import pytest

from ptxbench.storage.commit import git_commit

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture(autouse=True)
def _asked_of_git(monkeypatch):
    monkeypatch.delenv("PTXBENCH_COMMIT", raising=False)


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        [shutil.which("git"), "-C", str(folder), *identity, *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "code.py").write_text("1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "tag", "-a", "v1", "-m", "v1")
    return folder


def test_commit_of_a_clean_checkout(checkout):
    (checkout / "new results").touch()
    assert git_commit(checkout) == git(checkout, "rev-parse", "HEAD")


def test_changed_checkout_is_dirty(checkout):
    (checkout / "code.py").write_text("2\n")
    assert git_commit(checkout) == git(checkout, "rev-parse", "HEAD") + "-dirty"


def test_none_outside_of_a_checkout_or_below_somebody_elses(checkout, tmp_path):
    installed = checkout / "venv"
    installed.mkdir()
    assert git_commit(installed) is None
    assert git_commit(tmp_path) is None
    assert git_commit(tmp_path / "missing") is None


def test_none_without_git(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert git_commit(checkout) is None


def test_git_hook_of_another_repository_does_not_matter(checkout, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    monkeypatch.delenv("GIT_WORK_TREE", raising=False)
    commit = git_commit(checkout)
    monkeypatch.delenv("GIT_DIR")
    assert commit == git(checkout, "rev-parse", "HEAD")


def test_the_environment_names_the_commit_of_a_copy_without_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTXBENCH_COMMIT", "0123abc")
    assert git_commit(tmp_path) == "0123abc"

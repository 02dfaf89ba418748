"""Which commit of ptxbench wrote a run."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from ptxbench.core.version import VERSION


def git_commit(checkout: Path) -> str | None:
    """Return the commit of the checkout whose root is `checkout`, or None where it is not one.

    "-dirty" follows the commit where a tracked file was changed. The environment variable
    PTXBENCH_COMMIT goes first, for a copy of the files without their history.
    """
    named = os.environ.get("PTXBENCH_COMMIT")
    if named:
        return named
    git = shutil.which("git")
    # An installed package may lie below somebody else's checkout: only a root of its own counts.
    if git is None or _git(git, checkout, "rev-parse", "--show-toplevel") != str(checkout.resolve()):
        return None
    return _git(git, checkout, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def made_by(checkout: Path, began: datetime) -> dict[str, str | None]:
    """Return what the manifest of a script's result says of who wrote it, and when: it ends now.

    Args:
        checkout: Root of the checkout that holds the script.
        began: When it began.
    """
    return {
        "ptxbench": VERSION,
        "commit": git_commit(checkout),
        "began": began.isoformat(timespec="seconds"),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _git(git: str, folder: Path, *arguments: str) -> str | None:
    """Return what git prints, or None where it fails."""
    # Within a hook git sets GIT_DIR, which would name another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            [git, "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            env=environment,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

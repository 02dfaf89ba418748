"""The site, built once for all tests."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id):
    base = tmp_path_factory.getbasetemp()
    # Workers share what the first of them builds.
    root = base if worker_id == "master" else base.parent
    folder = root / "site"
    with (root / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():  # it comes whole, or not at all
            built = subprocess.run(
                [sys.executable, "runners/build_site.py", "--rooflines", "1", "--out", folder],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            assert built.returncode == 0, built.stderr
    return folder

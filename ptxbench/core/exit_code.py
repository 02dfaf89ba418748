"""Exit codes of shells, by which the end of another process is passed on (POSIX.1-2017, XCU 2.8.2)."""

NOT_FOUND, NOT_EXECUTABLE = 127, 126
# This plus the number of the signal that ended a process; POSIX asks for more than 128, shells take this.
SIGNALLED = 128


def shell_code(returned: int) -> int:
    """Return the exit code that a shell gives a process, by `Popen.returncode`: negative of a signal."""
    return returned if returned >= 0 else SIGNALLED - returned

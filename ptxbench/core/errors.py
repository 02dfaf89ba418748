"""Errors that a user can cause or meet, each with the exit code of the command line."""

from __future__ import annotations

from ptxbench.core.printable import printable, quotable


class PtxbenchError(Exception):
    """Base of every expected error; its text is one line that names the thing and the cure.

    What it quotes of foreign files cannot command a terminal, nor fill the screen.
    """

    exit_code = 2

    def __init__(self, text: str = "") -> None:
        super().__init__(quotable(text))


class InputError(PtxbenchError):
    """Bad usage or bad input: an unknown instruction, a file that does not parse."""

    def __init__(self, text: str = "") -> None:
        super().__init__(printable(text))


class ArgumentError(InputError):
    """An argument has a value that it cannot have; the command line says its option in the place of its name.

    Attributes:
        argument: Its name in Python.
        text: What is wrong, such as "must be from 0 to 1, not 2"; names of other arguments in backticks.
    """

    def __init__(self, argument: str, text: str) -> None:
        super().__init__(f"{argument} {text}")
        self.argument, self.text = argument, text


class NotMeasurableError(InputError):
    """An instruction does not exist on this target, or has no such operand pattern."""


class NoSuchRowError(InputError, KeyError):
    """A table has no row for what was looked up."""

    def __str__(self) -> str:
        """Return the message as it is; a plain KeyError would quote it."""
        return str(self.args[0])


class ToolError(PtxbenchError):
    """ptxas or nvdisasm is missing or was stopped, or refused what it was given."""


class RefusedModuleError(ToolError):
    """ptxas or nvdisasm looked at a module and refused it, or broke on it."""


class EndlessSourceError(InputError):
    """A user's template, or the macros of a source, do not come to an end."""


class GpuError(PtxbenchError):
    """No GPU, no driver, no permission, or a GPU that stopped answering."""

    exit_code = 3


class LaunchError(GpuError):
    """One kernel could not be loaded or did not end; the GPU itself still answers."""


class SensorError(GpuError):
    """A power source cannot be read on this GPU or driver."""


class ReplayError(InputError):
    """A replayed run does not hold the requested trial."""

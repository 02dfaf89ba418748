"""What a shell completes: instructions, GPUs and tables, by what a parameter takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def complete(metavar: str | None) -> Complete | None:
    """Return what completes the values of a parameter that is called so in the help, None for nothing."""
    return _BY_METAVAR.get((metavar or "").strip("[].").partition("]")[0])


def _beginning(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _instructions(_: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from ptxbench.catalogue.load import load_catalogue

    return _beginning((row.name for row in load_catalogue()), incomplete)


def _gpus(_: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from ptxbench.core.errors import GpuError
    from ptxbench.devices.select import list_gpus
    from ptxbench.devices.simulated.load import profile_names

    real: list[str] = []
    with suppress(GpuError):
        real = [str(gpu.index) for gpu in list_gpus()]
    return _beginning((*real, *(f"simulated:{name}" for name in profile_names())), incomplete)


def _tables(_: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from ptxbench.storage.shipped import shipped_names

    # Folders come first: bash forgets what stands before them.
    return [CompletionItem(incomplete, type="dir"), *_beginning(shipped_names(), incomplete)]


_BY_METAVAR: dict[str, Complete] = {
    "PATTERN": _instructions,
    "GPU": _gpus,
    "TABLE": _tables,
    "RUN": _tables,
}

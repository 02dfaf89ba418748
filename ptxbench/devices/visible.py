"""Which boards a process may use, by CUDA_VISIBLE_DEVICES, and how CUDA counts them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

from ptxbench.core.errors import GpuError
from ptxbench.devices.cuda_order import cuda_order
from ptxbench.sensors.nvml import DeviceEntry, list_devices

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER, _BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
# CUDA reads a number as strtol does, so that 1x is 1.
_NUMBER = re.compile(r"\+?\d+")
_KINDS = (_NUMBER, re.compile("GPU-"), re.compile("MIG-"))


@dataclass(frozen=True)
class _Counted:
    """Boards in CUDA's order; `doubt` says why others may follow that are not known."""

    boards: tuple[DeviceEntry, ...]
    doubt: str = ""


class Machine:
    """The boards of this machine, as an environment shows them.

    Args:
        library: pynvml (None), or what stands in for it.
        environment: The environment (None: the process's).

    Attributes:
        boards: All boards that NVML counts, those at fault among them.

    Raises:
        GpuError: There is no driver, or it does not work.
    """

    def __init__(self, library: Any = None, environment: Mapping[str, str] | None = None) -> None:
        self.boards = list_devices() if library is None else list_devices(library)
        self._environment = environment
        self._text = self._variable(_VISIBLE)

    def usable(self) -> tuple[DeviceEntry, ...]:
        """Return the boards that this process may use and that work, at least one.

        They are in the order of CUDA_VISIBLE_DEVICES, or without it in that of NVML.

        Raises:
            GpuError: There is none, or it is not known which they are.
        """
        shown = _Counted(self.boards) if self._text is None else self._shown
        found = tuple(board for board in shown.boards if not board.fault)
        if not found:
            faults = _fault_lines(shown.boards or self.boards)
            raise GpuError("; ".join([*self._why_none(shown), *faults]))
        if shown.doubt:
            warn_left_out(f"further GPUs of {_VISIBLE} ({self._text!r}) left out: {shown.doubt}")
        return found

    def counted(self, index: int) -> DeviceEntry:
        """Return the board that CUDA counts as `index`, at fault or not.

        Raises:
            GpuError: There is none, or it is not known which it is.
        """
        shown = self._shown
        if 0 <= index < len(shown.boards):
            return shown.boards[index]
        if shown.doubt:
            raise GpuError(f"which GPU CUDA counts as {index} is not known: {shown.doubt}")
        none = f"GPU {index} is not among the {len(shown.boards)} GPUs that this process may use"
        raise GpuError("; ".join([none, *_fault_lines(self.boards)]))

    def first(self) -> DeviceEntry:
        """Return the first board that works, as CUDA counts.

        Raises:
            GpuError: There is none.
        """
        usable = self.usable()
        if self._text is not None or len(usable) == 1:
            return usable[0]
        # Of a machine with a MIG instance CUDA shows that alone, while the others can be shown to it.
        return next((board for board in self._shown.boards if board in usable), usable[0])

    def require_visible(self, index: int) -> None:
        """Refuse a board that CUDA_VISIBLE_DEVICES hides.

        Args:
            index: As NVML counts.

        Raises:
            GpuError: It is hidden, or it is not known whether it is.
        """
        if self._text is None or any(board.index == index for board in self._shown.boards):
            return
        doubt = self._shown.doubt
        why = f"and {doubt}" if doubt else f"which hides GPU {index}: unset it, or name another GPU"
        raise GpuError(f"{_VISIBLE} is {self._text!r}, {why}")

    def say_left_out(self, named: Collection[object] = ()) -> None:
        """Name the boards that are at fault in a warning, a line for each fault.

        Args:
            named: Indices and UUIDs of boards whose opening will fail with an error of its own.
        """
        others = [board for board in self.boards if board.index not in named and board.uuid not in named]
        for line in _fault_lines(others):
            warn_left_out(line)

    @contextmanager
    def showing_what_works(self) -> Iterator[None]:
        """Hide what is at fault from CUDA, which this process starts within the block.

        One MIG instance hides every whole board from CUDA (MIG User Guide, "CUDA Device Enumeration").
        """
        uuids = [board.uuid for board in self.boards if not board.fault]
        is_harmed = any(board.fault and not board.is_forbidden for board in self.boards)
        if self._text is not None or not is_harmed or not uuids:
            yield
            return
        os.environ[_VISIBLE] = ",".join(uuids)
        try:
            yield
        finally:
            del os.environ[_VISIBLE]

    def _why_none(self, shown: _Counted) -> Iterator[str]:
        """Yield why no board is shown, if none is."""
        if not self.boards:
            yield "NVML sees no GPU here; try `ptxbench table --gpu simulated`"
        elif shown.doubt:
            yield f"{_VISIBLE} is {self._text!r}, and {shown.doubt}"
        elif not shown.boards:
            yield (
                f"{_VISIBLE} is {self._text!r}, which shows none of this machine's {len(self.boards)} GPUs:"
                " unset it, or set it to a GPU that `ptxbench gpus` lists"
            )

    def _variable(self, name: str) -> str | None:
        return (os.environ if self._environment is None else self._environment).get(name)

    @cached_property
    def _shown(self) -> _Counted:
        """Return the boards that CUDA_VISIBLE_DEVICES shows, in CUDA's order."""
        words = None if self._text is None else _words(self._text)
        if words is not None and not all(map(_NUMBER.match, words)):
            return _Counted(_named(words, self.boards))
        boards = [board for board in self.boards if not board.is_forbidden]
        if all(board.bus for board in boards):
            boards.sort(key=lambda board: board.bus or ())
        is_by_bus = self._variable(_ORDER) == _BY_BUS
        if words == () or len(boards) < 2 or (is_by_bus and not any(board.fault for board in boards)):
            return _picked(words, _Counted(tuple(boards)))
        try:
            return self._told()
        except OSError as problem:
            return _picked(words, _untold(boards, f"does not answer ({problem})", is_by_bus=is_by_bus))

    def _told(self) -> _Counted:
        """Return what CUDA itself counts.

        Raises:
            OSError: It does not answer.
        """
        boards = {board.uuid: board for board in self.boards}
        uuids = cuda_order(self._environment)
        known = tuple(boards[uuid] for uuid in takewhile(boards.__contains__, uuids))
        doubt = "CUDA shows a MIG instance there, or a GPU that NVML cannot read"
        return _Counted(known, "" if len(known) == len(uuids) else doubt)


def _words(text: str) -> tuple[str, ...]:
    """Return what CUDA reads in CUDA_VISIBLE_DEVICES: numbers, or UUIDs, up to a word that is none."""
    words = [word.strip() for word in text.split(",")]
    kinds = [kind for kind in _KINDS if kind.match(words[0])]
    read = tuple(takewhile(kinds[0].match, words)) if kinds else ()
    # One that stands there twice hides all.
    return read if len(set(read)) == len(read) else ()


def _named(words: tuple[str, ...], boards: Iterable[DeviceEntry]) -> tuple[DeviceEntry, ...]:
    """Return the boards of UUIDs, which may be cut short, up to the first that is none or not one alone."""
    if words[0].startswith("MIG-"):
        raise GpuError(
            f"{_VISIBLE} names the MIG instance {words[0]}: NVML reads the power of whole boards only"
        )
    found = [[board for board in boards if board.uuid.startswith(word)] for word in words]
    return tuple(those[0] for those in takewhile(lambda those: len(those) == 1, found))


def _picked(words: tuple[str, ...] | None, known: _Counted) -> _Counted:
    """Return the boards of numbers, up to the first number that is none."""
    if words is None:
        return known
    numbers = [int(found.group()) for found in map(_NUMBER.match, words) if found]
    there = list(takewhile(lambda number: number < len(known.boards), numbers))
    doubt = known.doubt if len(there) < len(numbers) else ""
    return _Counted(tuple(known.boards[number] for number in there), doubt)


def _untold(boards: list[DeviceEntry], silent: str, *, is_by_bus: bool) -> _Counted:
    """Return what is known of CUDA's order without CUDA: alike boards stand in the order of their bus."""
    if not is_by_bus and len({board.name for board in boards if board.name}) > 1:
        return _Counted(
            (),
            f"CUDA counts unlike GPUs in an order of its own and {silent}: set {_ORDER}={_BY_BUS},"
            " or name GPUs by UUID",
        )
    works = len(list(takewhile(lambda board: not board.fault, boards)))
    if works == len(boards):
        return _Counted(tuple(boards))
    return _Counted(
        tuple(boards[: works + 1]),
        f"CUDA may not count {boards[works].title}, which is at fault, and {silent}: name GPUs by UUID",
    )


def warn_left_out(line: str) -> None:
    """Name in a warning what is left out while the rest works."""
    logging.getLogger(__name__).warning("ptxbench: %s", line)


def _fault_lines(boards: Iterable[DeviceEntry]) -> Iterator[str]:
    """Yield a line for each fault, with the boards that have it."""
    titles: dict[str, list[str]] = {}
    for board in boards:
        if board.fault:
            titles.setdefault(board.fault, []).append(board.title)
    for fault, those in titles.items():
        yield f"{', '.join(those)} left out: {fault}"

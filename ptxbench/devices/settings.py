"""Set clocks and power limit for a while: refused unless allowed, verified, and restored on every way out.

A note on the disk (ptxbench/storage/settings_journal.py) is written before anything is set. After a SIGKILL
`restore_leftover` puts back what the note says.

Clocks are locked where the driver can do that (CUDA 14 has no application clocks), else application clocks
are set. No query tells a lock: one of before cannot be put back, and ends with ours.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from types import FrameType
from typing import Protocol

from ptxbench.core.errors import GpuError, InputError
from ptxbench.core.exit_code import SIGNALLED
from ptxbench.core.gpu_settings import GpuSettings, LocksMissingError, SettingChoices
from ptxbench.storage.settings_journal import SettingsHeldError, SettingsJournal, SettingsNote

Say = Callable[[str], None]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SettableGpu(Protocol):
    """A GPU whose settings can be read and changed."""

    @property
    def uuid_hash(self) -> str:
        """Hash of the board's UUID."""
        ...

    @property
    def uuid(self) -> str:
        """UUID of the board."""
        ...

    @property
    def name(self) -> str:
        """Marketing name."""
        ...

    def settings(self) -> GpuSettings:
        """Read what is set now."""
        ...

    def choices(self) -> SettingChoices:
        """Read what can be set."""
        ...

    def core_voltage_mv(self) -> float:
        """Read the core voltage, mV; NaN where it is not told. It takes some 0.1 s."""
        ...

    @property
    def locks_clocks(self) -> bool:
        """Whether clocks can be locked, each by itself; application clocks are set both at once."""
        ...

    def set_clocks(self, sm_clock_mhz: int, memory_clock_mhz: int) -> None:
        """Set both application clocks, MHz."""
        ...

    def lock_clocks(self, sm_clock_mhz: int | None, memory_clock_mhz: int | None) -> None:
        """Lock clocks, MHz; None is left alone.

        Raises:
            LocksMissingError: The board has no locks after all; from now on `locks_clocks` is False.
        """
        ...

    def unlock_clocks(self, *, memory: bool) -> None:
        """End the lock of the SM clock, and of the memory clock if that is set."""
        ...

    def set_power_limit(self, power_limit_mw: int) -> None:
        """Set the power limit, mW."""
        ...

    def foreign_processes(self) -> int | None:
        """Count other processes on the GPU, None where it is not known."""
        ...

    def refusals(self) -> str:
        """Return which queries were refused, for the end of a sentence; "" for none."""
        ...


@contextmanager
def applied(
    gpu: SettableGpu,
    wanted: GpuSettings,
    say: Say,
    *,
    allowed: bool,
    later: Sequence[GpuSettings] = (),
) -> Iterator[Callable[[GpuSettings], None]]:
    """Set a GPU for the time of the block, and restore what was there on every way out of it.

    Args:
        gpu: The GPU.
        wanted: What to set; None leaves a value as it is.
        say: Told one line when the GPU is set and one when it is restored.
        allowed: Whether the user gave --allow-settings.
        later: What will be set within the block, checked before anything is changed.

    Yields:
        What sets other values of those that `wanted` names.

    Raises:
        InputError: It is not allowed, or the GPU does not have such a clock or limit. Nothing was changed.
        GpuError: Another process is on the GPU, NVML refuses, or what is read back differs. What was there
            before is restored.
    """
    if not allowed:
        raise InputError(f"setting {wanted} changes the GPU for all its users; add `allow_settings`")
    if wanted == GpuSettings():
        raise InputError("nothing is to be set; name a clock or a power limit")
    journal = SettingsJournal(gpu.uuid_hash)
    with journal.held(), _stopped_by_signals() as restoring:
        _restore_noted(gpu, journal, say)
        note = _planned(gpu, wanted, later)
        _require_alone(gpu)
        journal.write(note)
        try:
            try:
                _set(gpu, note.during, note.locked)
            except LocksMissingError:
                note = _planned(gpu, wanted, later)
                journal.write(note)
                _set(gpu, note.during, note.locked)
            _require_set(gpu, note.during, note.locked)
            # Another user may have come since.
            _require_alone(gpu)
            how = " by a lock" if note.locked else ""
            say(f"{gpu.name}: set {note.during}{how} (before: {note.before})")
            done = note
            yield lambda other: _set_other(gpu, other, done)
        finally:
            with restoring():
                _restore_noted(gpu, journal, say)


def restore_leftover(gpu: SettableGpu, say: Say) -> bool:
    """Put back what a killed process left set on a GPU.

    Returns:
        Whether there was anything; False too while the process that set it still runs.

    Raises:
        GpuError: NVML refuses.
        InputError: The note cannot be read.
    """
    journal = SettingsJournal(gpu.uuid_hash)
    if not journal.path.exists():
        return False
    try:
        with journal.held():
            return _restore_noted(gpu, journal, say)
    except SettingsHeldError:
        return False


def _planned(gpu: SettableGpu, wanted: GpuSettings, later: Sequence[GpuSettings]) -> SettingsNote:
    """Return what will be set and what is there before, checked with all that is to be set later."""
    locked = gpu.locks_clocks and _has_clocks(wanted)
    before = gpu.settings()
    if locked:
        before = replace(before, sm_clock_mhz=None, memory_clock_mhz=None)
    during = wanted if locked else _completed(wanted, before)
    for one in (wanted, *later):
        _require_supported(gpu, one, _within(one, during), locked=locked)
    return SettingsNote(gpu.uuid, before, during, locked)


def _has_clocks(settings: GpuSettings) -> bool:
    return settings.sm_clock_mhz is not None or settings.memory_clock_mhz is not None


def _completed(wanted: GpuSettings, before: GpuSettings) -> GpuSettings:
    """Return what is to be set, with the other clock as it is: application clocks are set both at once."""
    if not _has_clocks(wanted):
        return wanted
    return replace(_over(wanted, before), power_limit_mw=wanted.power_limit_mw)


def _over(new: GpuSettings, old: GpuSettings) -> GpuSettings:
    """Return new settings, and the old ones where there is no new one."""
    pairs = zip(astuple(new), astuple(old), strict=True)
    return GpuSettings(*(before if wanted is None else wanted for wanted, before in pairs))


def _require_supported(gpu: SettableGpu, wanted: GpuSettings, during: GpuSettings, *, locked: bool) -> None:
    choices, before = gpu.choices(), gpu.settings()
    if _has_clocks(wanted):
        unread = before.sm_clock_mhz is None or before.memory_clock_mhz is None
        if not choices.clocks or (unread and not locked):
            raise GpuError(
                f"{gpu.name} has no application clocks, or they cannot be read{gpu.refusals()}:"
                " no clock can be set"
            )
        by_memory = {choice.memory_clock_mhz: choice.sm_clocks_mhz for choice in choices.clocks}
        memory_mhz, sm_mhz = during.memory_clock_mhz, during.sm_clock_mhz
        if memory_mhz is None:
            memory_mhz = choices.clocks[-1].memory_clock_mhz
        if memory_mhz not in by_memory:
            raise InputError(
                f"{gpu.name} has no memory clock of {memory_mhz} MHz; it has {', '.join(map(str, by_memory))}"
            )
        clocks = by_memory[memory_mhz]
        if sm_mhz is not None and sm_mhz not in clocks:
            near = min(clocks, key=lambda clock: abs(clock - sm_mhz))
            raise InputError(
                f"{gpu.name} has no SM clock of {sm_mhz} MHz at {memory_mhz} MHz memory clock; the nearest is"
                f" {near} MHz, of {len(clocks)} from {clocks[0]} to {clocks[-1]} MHz"
            )
    if wanted.power_limit_mw is not None:
        if choices.power_limits_mw is None or before.power_limit_mw is None:
            raise GpuError(f"the power limit of {gpu.name} cannot be set or read{gpu.refusals()}")
        low, high = choices.power_limits_mw
        if not low <= wanted.power_limit_mw <= high:
            raise InputError(
                f"a power limit of {wanted.power_limit_mw / 1000:g} W is outside of what {gpu.name} takes:"
                f" {low / 1000:g} to {high / 1000:g} W"
            )


def _require_alone(gpu: SettableGpu) -> None:
    others = gpu.foreign_processes()
    if others is None:
        raise GpuError(
            f"NVML does not tell who uses {gpu.name}{gpu.refusals()}: its settings are left as they are"
        )
    if others:
        raise GpuError(f"{others} other process(es) are on {gpu.name}: its settings are left as they are")


def _set(gpu: SettableGpu, wanted: GpuSettings, locked: bool = False) -> None:
    if locked:
        gpu.lock_clocks(wanted.sm_clock_mhz, wanted.memory_clock_mhz)
    elif wanted.sm_clock_mhz is not None and wanted.memory_clock_mhz is not None:
        gpu.set_clocks(wanted.sm_clock_mhz, wanted.memory_clock_mhz)
    if wanted.power_limit_mw is not None:
        gpu.set_power_limit(wanted.power_limit_mw)


def _set_other(gpu: SettableGpu, other: GpuSettings, note: SettingsNote) -> None:
    wanted = _within(other, note.during)
    _require_supported(gpu, other, wanted, locked=note.locked)
    _set(gpu, wanted, note.locked)
    _require_set(gpu, wanted, note.locked)


def _within(other: GpuSettings, during: GpuSettings) -> GpuSettings:
    """Return what is to be set for `other`, the rest as `during`, which says what will be restored.

    Raises:
        InputError: It names a value that would not be restored.
    """
    pairs = zip(astuple(other), astuple(during), strict=True)
    if any(new is not None and old is None for new, old in pairs):
        raise InputError(f"{other} cannot be set within {during}: it names another kind of setting")
    return _over(other, during)


def _require_set(gpu: SettableGpu, wanted: GpuSettings, locked: bool = False) -> None:
    """Refuse what reads otherwise than it was set; no query tells a lock."""
    now = gpu.settings()
    if locked:
        wanted = replace(wanted, sm_clock_mhz=None, memory_clock_mhz=None)
    if _set_part(now, wanted) != wanted:
        raise GpuError(f"{gpu.name} was set to {wanted}, but reads {_set_part(now, wanted)}")


def _set_part(values: GpuSettings, mask: GpuSettings) -> GpuSettings:
    """Return the values that `mask` has, None for the others."""
    pairs = zip(astuple(values), astuple(mask), strict=True)
    return GpuSettings(*(None if masked is None else value for value, masked in pairs))


def _changed(now: GpuSettings, before: GpuSettings) -> GpuSettings:
    """Return what of `before` is not set now: what was never changed may not be refused."""
    clocks_differ = (now.sm_clock_mhz, now.memory_clock_mhz) != (before.sm_clock_mhz, before.memory_clock_mhz)
    return GpuSettings(
        before.sm_clock_mhz if clocks_differ else None,
        before.memory_clock_mhz if clocks_differ else None,
        before.power_limit_mw if now.power_limit_mw != before.power_limit_mw else None,
    )


def _restore_noted(gpu: SettableGpu, journal: SettingsJournal, say: Say) -> bool:
    """Put back what the note of a board says, then remove it; the caller holds the lock."""
    note = journal.read()
    if note is None:
        return False
    before = _set_part(note.before, note.during)
    try:
        if note.locked:
            gpu.unlock_clocks(memory=note.during.memory_clock_mhz is not None)
            say(f"{gpu.name}: ended the lock of its clocks")
        changed = _changed(_set_part(gpu.settings(), before), before)
        if changed != GpuSettings():
            _set(gpu, changed)
            _require_set(gpu, before)
            say(f"{gpu.name}: restored {changed}")
    except GpuError as error:
        raise GpuError(
            f"{error}; {gpu.name} could not be restored to {before}: run `ptxbench clocks restore`"
            f" with permission (the note is {journal.path})"
        ) from error
    journal.remove()
    return True


@contextmanager
def _stopped_by_signals() -> Iterator[Callable[[], _Deferred]]:
    """End the block by an exception on SIGTERM and SIGHUP; yield a context within which they wait."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may handle signals: there they end nothing half-way.
        yield lambda: _Deferred(())
        return
    # A signal that is ignored, as SIGHUP under nohup, stays so.
    old = {n: handler for n in _SIGNALS if (handler := signal.getsignal(n)) is not signal.SIG_IGN}

    def stop(number: int, _: FrameType | None) -> None:
        raise SystemExit(SIGNALLED + number)

    for number in set(old) - {signal.SIGINT}:
        signal.signal(number, stop)
    try:
        yield lambda: _Deferred(tuple(old))
    finally:
        for number, before in old.items():
            signal.signal(number, before)


class _Deferred:
    """Signals that arrive within are sent again at the end."""

    def __init__(self, numbers: tuple[signal.Signals, ...]) -> None:
        self._numbers = numbers
        self._came: list[int] = []

    def __enter__(self) -> None:
        self._before = {number: signal.getsignal(number) for number in self._numbers}
        for number in self._numbers:
            signal.signal(number, lambda came, _: self._came.append(came))

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for came in self._came:
            signal.raise_signal(came)

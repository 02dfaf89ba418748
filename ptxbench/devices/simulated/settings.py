"""The simulated GPU's clocks and power limit, settable."""

from __future__ import annotations

from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.gpu_settings import ClockChoice, GpuSettings, LocksMissingError, SettingChoices
from ptxbench.devices.simulated.governor import voltage_factor
from ptxbench.devices.simulated.physics import Physics
from ptxbench.devices.simulated.profile import Profile

_MILLI = 1000
_STEP_MV = 6.25


class SimulatedSettings:
    """Settings of one simulated board.

    Args:
        info: What the GPU is.
        physics: Its clocks and power cap.
        profile: What it is like.
    """

    def __init__(self, info: GpuInfo, physics: Physics, profile: Profile) -> None:
        self.name = info.name
        self.uuid = self.uuid_hash = info.uuid_hash
        self._physics = physics
        self._governor = physics.governor
        self._chip = profile.chip
        self._full_memory_mhz = profile.chip.memory_clock_mhz
        lower = profile.memory.clocks_mhz if profile.memory else ()
        self._memory_mhz = tuple(sorted(round(clock) for clock in (*lower, self._full_memory_mhz)))
        self._limit_mw = round(_MILLI * profile.board.power_cap_w)

    def settings(self) -> GpuSettings:
        """Read what is set now."""
        limit_mw = round(_MILLI * self._governor.cap_w)
        memory_mhz = round(self._full_memory_mhz * self._physics.memory_clock_ratio)
        return GpuSettings(round(self._governor.full_mhz), memory_mhz, limit_mw)

    def core_voltage_mv(self) -> float:
        """Read the core voltage, mV: 1000 at the full clock, in steps of 6.25 mV as real boards have."""
        clock = self._governor.full_mhz / self._chip.clock_mhz
        factor = voltage_factor(clock, self._chip.ridge_mhz / self._chip.clock_mhz)
        return _STEP_MV * round(_MILLI * factor / _STEP_MV)

    def choices(self) -> SettingChoices:
        """Read what can be set: every clock, and limits from a quarter of its own."""
        clocks = self._governor.supported_mhz
        return SettingChoices(
            tuple(ClockChoice(memory_mhz, clocks) for memory_mhz in self._memory_mhz),
            (self._limit_mw // 4, self._limit_mw),
        )

    def set_clocks(self, sm_clock_mhz: int, memory_clock_mhz: int) -> None:
        """Set the SM clock and the memory clock."""
        self._governor.set_clock(sm_clock_mhz)
        self._physics.set_memory_clock(memory_clock_mhz / self._full_memory_mhz)

    @property
    def locks_clocks(self) -> bool:
        """False: its clocks are application clocks, which can be read."""
        return False

    def lock_clocks(self, sm_clock_mhz: int | None, memory_clock_mhz: int | None) -> None:
        """Refuse: it has no locks."""
        del sm_clock_mhz, memory_clock_mhz
        raise LocksMissingError(f"{self.name} has no locked clocks")

    def unlock_clocks(self, *, memory: bool) -> None:
        """Do nothing: it has no locks."""

    def set_power_limit(self, power_limit_mw: int) -> None:
        """Set the power cap."""
        self._governor.set_cap(power_limit_mw / _MILLI)

    def foreign_processes(self) -> int:
        """Return 0: nobody shares a simulated GPU."""
        return 0

    def refusals(self) -> str:
        """Return "": it tells everything."""
        return ""

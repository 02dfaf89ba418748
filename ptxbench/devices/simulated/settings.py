"""The simulated GPU's SM clock and power limit, settable."""

from __future__ import annotations

from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.gpu_settings import ClockChoice, GpuSettings, SettingChoices
from ptxbench.devices.simulated.governor import Governor
from ptxbench.devices.simulated.profile import Profile

_MILLI = 1000


class SimulatedSettings:
    """Settings of one simulated board; its memory has one clock.

    Args:
        info: What the GPU is.
        governor: What keeps its clock and power cap.
        profile: What it is like.
    """

    def __init__(self, info: GpuInfo, governor: Governor, profile: Profile) -> None:
        self.name = info.name
        self.uuid = self.uuid_hash = info.uuid_hash
        self._governor = governor
        self._memory_mhz = round(profile.chip.memory_clock_mhz)
        self._limit_mw = round(_MILLI * profile.board.power_cap_w)

    def settings(self) -> GpuSettings:
        """Read what is set now."""
        limit_mw = round(_MILLI * self._governor.cap_w)
        return GpuSettings(round(self._governor.full_mhz), self._memory_mhz, limit_mw)

    def choices(self) -> SettingChoices:
        """Read what can be set: every clock, and limits from a quarter of its own."""
        clocks = ClockChoice(self._memory_mhz, self._governor.supported_mhz)
        return SettingChoices((clocks,), (self._limit_mw // 4, self._limit_mw))

    def set_clocks(self, sm_clock_mhz: int, memory_clock_mhz: int) -> None:  # noqa: ARG002
        """Set the SM clock."""
        self._governor.set_clock(sm_clock_mhz)

    def set_power_limit(self, power_limit_mw: int) -> None:
        """Set the power cap."""
        self._governor.set_cap(power_limit_mw / _MILLI)

    def foreign_processes(self) -> int:
        """Return 0: nobody shares a simulated GPU."""
        return 0

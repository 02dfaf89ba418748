"""What a GPU is, and whether its numbers are measurements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

# No board draws more: those of 2026 have limits of up to 1,400 W.
ANY_BOARD_W = 2000.0


class GpuKind(StrEnum):
    """Whether numbers from this GPU are measurements."""

    REAL = "real"
    SIMULATED = "simulated"
    REPLAYED = "replayed"


@dataclass(frozen=True)
class GpuInfo:
    """What a GPU is; everything here goes into the manifest.

    Attributes:
        index: NVML index, or -1 where there is no device.
        kind: Real, simulated or replayed.
        name: Marketing name.
        uuid_hash: First 12 hex digits of the UUID's SHA-256; names the board without revealing it.
        target: PTX and SASS target, such as "sm_90a"; "" where only name, board, driver and limits are known.
        sm_count: Streaming multiprocessors; 0 there.
        max_threads_per_sm: Resident threads that fill one; 0 there.
        power_limit_w: Enforced power limit, NaN where NVML does not tell.
        max_sm_clock_mhz: Highest SM clock, NaN where NVML does not tell.
        driver: Driver version.
        cuda: CUDA version that the driver implements.
        vbios: VBIOS version.
        clocks_locked: Whether application clocks are set; None where NVML does not tell.
        max_power_limit_w: Highest power limit that can be set, NaN where NVML does not tell, and in runs of
            before this was kept.
        l2_bytes: Size of L2; NaN where it is not known, and in runs of before this was kept.
        dram_bytes_per_s: Peak bandwidth of DRAM, likewise.
    """

    index: int
    kind: GpuKind
    name: str
    uuid_hash: str
    target: str
    sm_count: int
    max_threads_per_sm: int
    power_limit_w: float
    max_sm_clock_mhz: float
    driver: str
    cuda: str
    vbios: str
    clocks_locked: bool | None = None
    max_power_limit_w: float = math.nan
    l2_bytes: float = math.nan
    dram_bytes_per_s: float = math.nan

    @classmethod
    def partly_known(
        cls,
        name: str,
        uuid_hash: str,
        driver: str = "",
        power_limit_w: float = math.nan,
        max_sm_clock_mhz: float = math.nan,
    ) -> GpuInfo:
        """Return a real GPU of which nothing else is known."""
        return cls(
            -1, GpuKind.REAL, name, uuid_hash, "", 0, 0, power_limit_w, max_sm_clock_mhz, driver, "", ""
        )

    @property
    def max_power_w(self) -> float:
        """Most that the board may draw whatever limit a user sets, W; NaN where it is not known."""
        return self.power_limit_w if math.isnan(self.max_power_limit_w) else self.max_power_limit_w

    def fault(self) -> str:
        """Return what no GPU can be, for the reader of a file that contains it; "" where all is well."""
        if self.target and (self.sm_count < 1 or self.max_threads_per_sm < 1):
            return f"has {self.sm_count} SMs of {self.max_threads_per_sm} threads, which no GPU has"
        if math.isinf(self.power_limit_w) or self.power_limit_w <= 0:
            return f"has a power limit of {self.power_limit_w:g} W, which no GPU has"
        if math.isinf(self.max_power_limit_w) or self.max_power_limit_w <= 0:
            return f"has a highest power limit of {self.max_power_limit_w:g} W, which no GPU has"
        if math.isinf(self.l2_bytes) or self.l2_bytes <= 0:
            return f"has {self.l2_bytes:g} bytes of L2, which no GPU has"
        if math.isinf(self.dram_bytes_per_s) or self.dram_bytes_per_s <= 0:
            return f"reads {self.dram_bytes_per_s:g} bytes a second from DRAM, which no GPU does"
        return ""

    @property
    def title(self) -> str:
        """Its name, and where it is no real one that its numbers are no measurement."""
        if self.kind is GpuKind.REAL:
            return self.name
        return f"{self.name} ({self.kind.upper()}, no measurement)"

    @property
    def slug(self) -> str:
        """Folder name of this GPU, such as "nvidia-h200"."""
        words = "".join(c if c.isalnum() else " " for c in self.name.lower()).split()
        return "-".join(words)


def without_maker(name: str) -> str:
    """Return the name of a GPU without that of NVIDIA."""
    return name.removeprefix("NVIDIA ")

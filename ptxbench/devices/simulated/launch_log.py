"""What the simulated GPU draws for kernels of which only names and times are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ptxbench.devices.simulated.physics import Phase
from ptxbench.devices.simulated.profile import Profile
from ptxbench.devices.simulated.rng import hashed_unit

# Hidden powers, of what the board may draw above its static power.
_LEAST, _MOST = 0.1, 0.75
# Scatter from one call of a kernel to the next: its data differ.
CALL_SCATTER = 0.04


def kernel_power_w(name: str, seed: int, profile: Profile) -> float:
    """Return the hidden power of a kernel above the static power, W; the same for a name and a seed."""
    room_w = profile.board.power_cap_w - profile.board.static_w
    return room_w * (_LEAST + (_MOST - _LEAST) * hashed_unit("kernel", str(seed), name))


def launch_phases(
    start_ns: npt.NDArray[np.int64],
    end_ns: npt.NDArray[np.int64],
    power_w: npt.NDArray[np.float64],
    length_ns: int,
    clock_mhz: float,
) -> Sequence[Phase]:
    """Return what kernels do to the chip from 0 to `length_ns`, one phase for each change.

    Kernels that run at the same time have their mean power, so that each of them counts as if it had the
    chip for its share of the time.

    Args:
        start_ns: Begin of each kernel, shape (n,).
        end_ns: Its end, shape (n,).
        power_w: Its power above the static power, W, shape (n,).
        length_ns: Length of the run.
        clock_mhz: SM clock at full speed.
    """
    at_ns = np.clip(np.concatenate(([0], start_ns, end_ns, [length_ns])), 0, length_ns)
    none = np.zeros(1)
    count = np.concatenate((none, np.ones(len(start_ns)), -np.ones(len(end_ns)), none))
    power = np.concatenate((none, power_w, -power_w, none))
    order = np.argsort(at_ns, kind="stable")
    running, together_w = np.cumsum(count[order])[:-1], np.cumsum(power[order])[:-1]
    lengths_s = np.diff(at_ns[order]) / 1e9
    mean_w = np.where(running > 0, together_w / np.maximum(running, 1), 0.0)
    kept = lengths_s > 0
    return [
        Phase(length_s * clock_mhz * 1e6, max(drawn_w, 0.0) * length_s)
        for length_s, drawn_w in zip(lengths_s[kept].tolist(), mean_w[kept].tolist(), strict=True)
    ]

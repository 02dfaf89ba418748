"""A GPU that runs anywhere, in virtual time, with a known truth; never a source of results."""

from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import find_board, find_profile

__all__ = ["SimulatedGpu", "find_board", "find_profile"]

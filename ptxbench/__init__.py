"""ptxbench: the energy of every PTX instruction on an NVIDIA GPU.

Importing this package imports neither cuda nor pynvml; they are loaded when a real GPU is opened.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("ptxbench")
except PackageNotFoundError:
    __version__ = "0+unknown"

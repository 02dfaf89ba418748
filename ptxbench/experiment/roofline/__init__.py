"""Measures the energy roofline of a GPU with kernels of a set intensity."""

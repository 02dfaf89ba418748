"""GEMM kernels in many variants: the search space, their energy without a sensor, and the search."""

"""From a measured table to the energy of whole kernels."""

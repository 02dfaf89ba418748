"""Where kernels run: a real GPU, a simulated one, or a recorded run, behind one protocol."""

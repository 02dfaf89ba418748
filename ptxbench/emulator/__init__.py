"""What a kernel of ptxbench computes, worked out in numpy: the reference of the numeric check."""

"""`python -m ptxbench`."""

from ptxbench.cli.main import main

main()

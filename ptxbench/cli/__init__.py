"""The command line: parses arguments and prints; no logic."""

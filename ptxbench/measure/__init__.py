"""Protocols, repeats and validity: from a launch plan to an energy with an error bar."""

"""Jinja templates of PTX kernels, one a family, read through importlib.resources."""

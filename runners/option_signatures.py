"""For the site: functions that take a dataclass of options are shown with its fields, as in `help()`."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import griffe


class OptionSignatures(griffe.Extension):
    """Takes signature and docstring of what `ptxbench.core.option.takes` decorates from the function."""

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace what stands in the source."""
        if not any(one.callable_path.endswith("takes") for one in func.decorators):
            return
        found = getattr(import_module(func.module.path), func.name)
        func.parameters = griffe.Parameters(*map(_shown, inspect.signature(found).parameters.values()))
        func.docstring = griffe.Docstring(inspect.getdoc(found) or "", parent=func)


def _shown(one: inspect.Parameter) -> griffe.Parameter:
    kind = griffe.ParameterKind(one.kind.description)
    default = None if one.default is one.empty else repr(one.default)
    return griffe.Parameter(
        one.name, annotation=inspect.formatannotation(one.annotation).strip("'"), kind=kind, default=default
    )

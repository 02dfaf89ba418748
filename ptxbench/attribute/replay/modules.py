"""Which module of a PyTorch model makes which launch of a step: what was captured while it ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ptxbench.core.errors import ArgumentError


def require_model(model: Any) -> None:
    """Refuse what has no modules.

    Raises:
        ArgumentError: It is no `torch.nn.Module`.
    """
    if not callable(getattr(model, "named_modules", None)):
        raise ArgumentError("model", f"must be a torch.nn.Module, not {model!r}")


@contextmanager
def marked(model: Any, captured: Callable[[], int]) -> Iterator[list[str]]:
    """Note the modules of what is captured while the block runs.

    Args:
        model: A `torch.nn.Module`.
        captured: Tells how much has been captured so far.

    Yields:
        The innermost module of each thing that was captured, such as "Llama.layers.0.mlp", "" for none; whole
        at the end of the block. What comes behind it is in no module.
    """
    made: list[str] = []
    opened: list[str] = []

    def note() -> None:
        made.extend([opened[-1] if opened else ""] * (captured() - len(made)))

    def begin(label: str) -> None:
        note()
        opened.append(label)

    def end() -> None:
        note()
        opened.pop()

    root = type(model).__name__
    with ExitStack() as hooks:
        for path, module in model.named_modules():
            label = f"{root}.{path}" if path else root
            before = module.register_forward_pre_hook(lambda *_, label=label: begin(label))
            # A module that raises has an end as well.
            after = module.register_forward_hook(lambda *_: end(), always_call=True)
            hooks.callback(before.remove)
            hooks.callback(after.remove)
        yield made
        note()

"""Scripts of runners/, benchmarks/ and studies/, which are no modules of the package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def load_script(path: str) -> ModuleType:
    """Return a script as a module of its own name, loaded anew; it finds its neighbours as a script does.

    Args:
        path: From the root of the checkout, such as "runners/refresh_readme.py".
    """
    file = ROOT / path
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses look their module up
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    return module

"""From a user's source and a variant's values to machine code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import RefusedModuleError
from ptxbench.core.toolchain import run_tool, tool_folder, tool_version
from ptxbench.tune.cubin_cache import cached, cubin_key
from ptxbench.tune.expression import Value
from ptxbench.tune.spec import Source

_TEMPLATE = ".j2"
_VERSION = re.compile(r"^\.version\s+(\d+)\.(\d+)", re.MULTILINE)


def build_source(source: Source, values: Mapping[str, Value], target: str) -> Cubin:
    """Return the machine code of a source for a variant's values.

    A CUDA source gets each value as a macro, a template as a variable; PTX and cubins take none.

    Args:
        source: The code.
        values: Sizes, axes and derived values by name.
        target: Such as "sm_90a".

    Raises:
        RefusedModuleError: It does not compile or assemble.
        ToolError: nvcc or ptxas is missing.
    """
    name, code = source.path.name, source.code
    if name.endswith(_TEMPLATE):
        name, code = name.removesuffix(_TEMPLATE), _rendered(source, values)
    if name.endswith(".cubin"):
        return Cubin(code, target, OptLevel.O3, "as given")

    def make() -> bytes:
        is_ptx = name.endswith(".ptx")
        ptx = code.decode(errors="replace") if is_ptx else _compiled(name, code, values, target)
        return assemble_ptx(ptx, target, OptLevel.O3).image

    image = cached(cubin_key(name, code, values, target), make)
    return Cubin(image, target, OptLevel.O3, f"ptxas {tool_version('ptxas')}")


def find_entry(name: str, entries: Sequence[str]) -> str:
    """Return the kernel that is called so, be it by its plain name or as C++ writes it.

    Args:
        name: Its name.
        entries: The kernels of the code.

    Raises:
        RefusedModuleError: There is none, or several.
    """
    if name in entries:
        return name
    mangled = [one for one in entries if one.startswith(f"_Z{len(name)}{name}")]
    if len(mangled) != 1:
        raise RefusedModuleError(f"the code has no kernel {name}, only {', '.join(entries)}")
    return mangled[0]


def _rendered(source: Source, values: Mapping[str, Value]) -> bytes:
    """Render a template; a sandbox keeps it from anything but its values."""
    environment = SandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False)
    try:
        return environment.from_string(source.code.decode(errors="replace")).render(dict(values)).encode()
    except (jinja2.TemplateError, ArithmeticError, TypeError, ValueError) as error:
        raise RefusedModuleError(f"{source.path.name} does not render: {error}") from error


def _compiled(name: str, code: bytes, values: Mapping[str, Value], target: str) -> str:
    """Return the PTX of a CUDA source.

    nvcc assembles what it compiled as a check. Where its compiler is newer than the assembler beside it, that
    check fails though the PTX is there; the assembler that counts judges it again.
    """
    macros = [f"-D{macro}={value}" for macro, value in values.items()]
    with tool_folder() as folder:
        (folder / name).write_bytes(code)
        written = folder / "module.ptx"
        try:
            run_tool("nvcc", ["-ptx", f"-arch={target}", *macros, name, "-o", written.name], folder)
        except RefusedModuleError:
            if not written.exists():
                raise
        return _for_our_assembler(written.read_text())


def _for_our_assembler(ptx: str) -> str:
    """Say the newest PTX version that ptxas knows where the compiler is newer; it refuses what it lacks.

    CUDA 13.x has PTX 9.x, and CUDA 12.x had PTX 8.x.
    """
    known = re.match(r"(\d+)\.(\d+)", tool_version("ptxas"))
    found = _VERSION.search(ptx)
    if known is None or found is None:
        return ptx
    newest = int(known[1]) - 4, int(known[2])
    if (int(found[1]), int(found[2])) <= newest:
        return ptx
    return _VERSION.sub(".version {}.{}".format(*newest), ptx, count=1)

"""From a user's source and a variant's values to machine code."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.core.cache import Cache
from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import RefusedModuleError
from ptxbench.core.toolchain import (
    assembler_name,
    nvcc_commands,
    preprocess,
    run_tool,
    tool_folder,
    tool_version,
)
from ptxbench.sass.resources import cubin_capability
from ptxbench.tune.compiler_options import named_in, with_values
from ptxbench.tune.expression import Value
from ptxbench.tune.spec import Source
from ptxbench.tune.template_process import TemplateProcess

# What was compiled, by what it is made from: compiling takes most of a trial.
_KEPT = Cache("cubins")
_DIGEST_BYTES = 32  # SHA-256
_TEMPLATE = ".j2"
_VERSION = re.compile(r"^\.version\s+(\d+)\.(\d+)", re.MULTILINE)
# The compiler that nvcc starts may be of another release than nvcc.
_COMPILER = re.compile(r"^#\$ CICC_PATH=(.+)$", re.MULTILINE)
_COMMAND = re.compile(r"^#\$ (?!\w+=)(.+)$", re.MULTILINE)
_TEMPLATES = TemplateProcess()
OTHER_SOURCES = (
    "compiled with other included files or flags of nvcc (also by CPATH or NVCC_APPEND_FLAGS); put them back,"
    " or choose a new folder"
)


@dataclass(frozen=True)
class VariantSource:
    """A source for the values of one variant.

    Attributes:
        name: Name of its file, without that of a template.
        code: Its code, rendered.
        target: Such as "sm_90a".
        options: What nvcc is told: the values as macros, and the options of the specification.
        assembler_options: What ptxas is told.
        key: For CUDA, hash of all that nvcc sees: the code with what it includes, and all flags; else "".
        refused: Why it cannot be compiled, "" where nothing is known against it; `key` is a hash of it then.
    """

    name: str
    code: bytes
    target: str
    options: tuple[str, ...]
    assembler_options: tuple[str, ...] = ()
    key: str = ""
    refused: str = ""

    def build(self) -> Cubin:
        """Return its machine code, which may have been kept.

        Raises:
            RefusedModuleError: It does not compile or assemble.
            ToolError: nvcc or ptxas is missing.
        """
        if self.refused:
            raise RefusedModuleError(self.refused)
        if self.name.endswith(".cubin"):
            _require_target(self.name, self.code, self.target)
            return Cubin(self.code, self.target, OptLevel.O3, "as given")

        def make() -> bytes:
            return assemble_ptx(self.ptx(), self.target, OptLevel.O3, options=self.assembler_options).image

        seen = self.key or hashlib.sha256(self.code).hexdigest()
        made_by = (self.target, assembler_name(), *self.assembler_options)
        image = cached(_digest(seen, *made_by), make)
        return Cubin(image, self.target, OptLevel.O3, assembler_name())

    def ptx(self) -> str:
        """Return its PTX, which may have been kept; "" of a cubin.

        Raises:
            RefusedModuleError: It does not compile.
            ToolError: nvcc is missing.
        """
        if self.name.endswith(".cubin"):
            return ""
        code = cached(_digest("ptx", self.key), lambda: _compiled(self).encode()) if self.key else self.code
        return code.decode(errors="replace")


def _require_target(name: str, image: bytes, target: str) -> None:
    """Refuse a cubin of another major compute capability than the GPU's, or of a newer one.

    Raises:
        RefusedModuleError: It is one.
    """
    own, needed = divmod(int(re.sub(r"\D", "", target)), 10), divmod(cubin_capability(image), 10)
    if own[0] != needed[0] or own < needed:
        made_for = "".join(map(str, needed))
        raise RefusedModuleError(f"{name} is assembled for sm_{made_for}, and the GPU is of {target}")


def variant_source(source: Source, values: Mapping[str, Value], target: str) -> VariantSource:
    """Return a source for a variant's values.

    A CUDA source gets each value as a macro, a template as a variable; PTX and cubins take none.

    Args:
        source: The code.
        values: Sizes, axes and derived values by name.
        target: Such as "sm_90a".

    Raises:
        EndlessSourceError: Its template or its macros do not come to an end.
        InputError: An option names a value that there is not.
        ToolError: nvcc is missing.
    """
    name, macros = source.path.name, [f"-D{macro}={value}" for macro, value in values.items()]
    given = VariantSource(
        name.removesuffix(_TEMPLATE),
        source.code,
        target,
        (*macros, *with_values(source.options, values)),
        tuple(with_values(source.assembler_options, values)),
    )
    try:
        if name.endswith(_TEMPLATE):
            text = source.code.decode(errors="replace")
            given = replace(given, code=_TEMPLATES.render(name, text, values))
        if not given.name.endswith(".cu"):
            return given
        given = replace(given, code=named_in(given.code, source.entry))
        return replace(given, key=_key(given))
    except RefusedModuleError as error:
        return replace(given, key=_digest(str(error)), refused=str(error))


def _key(source: VariantSource) -> str:
    """Return a hash of what nvcc compiles and of how: files may change, and flags come from the environment.

    Only the preprocessor knows which files count. A list of them (`nvcc -M`) takes as long, and says nothing
    of a new file that comes first in the search path. Its output has no flags of the compiler; the commands
    that nvcc lists have all of them.
    """
    with tool_folder() as folder:
        (folder / source.name).write_bytes(source.code)
        flags = _flags(source)
        preprocessed = preprocess(flags, "module.ii", folder)
        listed = nvcc_commands(["-ptx", *flags], folder)
    found = _COMPILER.search(listed)
    compiler = "" if found is None else _identity(Path(found[1]) / "cicc")
    commands = [command.replace(str(folder), "") for command in _COMMAND.findall(listed)]
    seen = hashlib.sha256(preprocessed.replace(str(folder).encode(), b"")).hexdigest()
    return _digest(seen, *commands, compiler, tool_version("nvcc"))


def _identity(file: Path) -> str:
    """Return what tells a program from the one of another release, without reading its 100 MB."""
    try:
        found = file.stat()
    except OSError:
        return ""
    return f"{file} {found.st_size} {found.st_mtime_ns}"


def cached(key: str, make: Callable[[], bytes]) -> bytes:
    """Return what is kept under a key, or else make and keep it; an entry that is damaged is made again."""
    name = f"{key[:2]}/{key}"
    held = _KEPT.get(name)
    if held is not None:
        digest, image = held[:_DIGEST_BYTES], held[_DIGEST_BYTES:]
        if hashlib.sha256(image).digest() == digest:
            return image
    image = make()
    _KEPT.put(name, hashlib.sha256(image).digest() + image)
    return image


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _flags(source: VariantSource) -> list[str]:
    # `-arch=sm_90a` would leave out macros of the architecture where nvcc only preprocesses.
    architecture = source.target.replace("sm_", "compute_")
    return ["-gencode", f"arch={architecture},code={architecture}", *source.options, source.name]


def _compiled(source: VariantSource) -> str:
    """Return the PTX of a CUDA source.

    nvcc assembles what it compiled as a check. Where its compiler is newer than the assembler beside it, that
    check fails though the PTX is there; the assembler that counts judges it again.
    """
    with tool_folder() as folder:
        (folder / source.name).write_bytes(source.code)
        written = folder / "module.ptx"
        try:
            run_tool("nvcc", ["-ptx", *_flags(source), "-o", written.name], folder)
        except RefusedModuleError:
            if not written.exists():
                raise
        return _for_our_assembler(written.read_text(encoding="utf-8", errors="replace"))


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

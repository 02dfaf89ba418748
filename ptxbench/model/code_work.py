"""A kernel's code as what a launch of it executes and moves."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ptxbench.catalogue.architecture import sm_facts
from ptxbench.catalogue.occupancy import BlockNeeds, blocks_per_sm, lines_of_a_block
from ptxbench.catalogue.product import l2_bytes
from ptxbench.codegen.assemble import assemble_any_version
from ptxbench.codegen.containers import device_images, is_cubin, require_ptx
from ptxbench.core.condition import OptLevel
from ptxbench.core.demangle import short_names
from ptxbench.core.errors import ArgumentError, InputError, RefusedModuleError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.target import digits
from ptxbench.core.threads import LINE_BYTES, WARP
from ptxbench.model.addresses import Launch
from ptxbench.model.atlas import Atlas
from ptxbench.model.executed import Counts, Executed, Placed, executions
from ptxbench.model.inputs import launch_time_s
from ptxbench.model.opcodes import OpcodeClass, opcode_class
from ptxbench.model.traffic import UNKNOWN_BYTES, Caches, GivenBytes, Traffic, traffic_of
from ptxbench.model.work import KernelWork, Level
from ptxbench.sass.listing import disassemble, entry_names, parse_listing, source_lines
from ptxbench.sass.program import SassKernel
from ptxbench.sass.resources import kernel_resources
from ptxbench.storage.file_errors import NAME_CODE, read_bytes

_TARGET = re.compile(r"^\s*\.target\s+(sm_\d+[af]?)", re.MULTILINE)
_DEBUG = re.compile(r"^\s*\.target[^\n]*\bdebug\b", re.MULTILINE)
_HEADER_FLAGS = re.compile(r"EF_CUDA_SM(\d+)")


@dataclass(frozen=True)
class KernelCode:
    """A kernel's machine code.

    Attributes:
        kernel: The entry.
        functions: Everything in its file, by name: routines that it calls may stand there.
        image: The cubin that they stand in.
        notes: What was done to get it, a sentence each.
    """

    kernel: SassKernel
    functions: Mapping[str, SassKernel]
    image: bytes
    notes: tuple[str, ...] = ()

    def lines(self) -> dict[str, str]:
        """Return the source line of each place that has one, such as "/tmp/scale.cu:12" at "0x1a0"."""
        listing = disassemble(self.image, lines=True)
        found = {f"{at:#x}": line for at, line in source_lines(listing, self.kernel.name).items()}
        for name in self.functions.keys() - {self.kernel.name}:
            found |= {f"{name}:{at:#x}": line for at, line in source_lines(listing, name).items()}
        return found


def read_kernel(path: Path, name: str | None, table: Atlas, opt_level: OptLevel = OptLevel.O3) -> KernelCode:
    """Return one kernel's SASS from a file of PTX or machine code, or from a folder of cubins.

    Args:
        path: PTX text, which is assembled for the table's GPU, a cubin, a fat binary, an object, library or
            program of a host that holds one, or a folder of cubins, such as Triton's cache.
        name: Entry name; None where there is one kernel.
        table: The table, which names the GPU.
        opt_level: Level to assemble PTX at.

    Raises:
        InputError: The file cannot be read, is for another GPU, or has not this one kernel.
        ToolError: ptxas or nvdisasm is missing, or refused the file.
    """
    if path.is_dir():
        cubins = sorted(path.rglob("*.cubin"))
        if not cubins:
            raise InputError(f"{path} holds no cubin; name a file of PTX or machine code")
        _require_no_level(str(path), opt_level)
        return _find_kernel([(str(one), read_bytes(one), "") for one in cubins], str(path), name, table.gpu)
    return kernel_in(read_bytes(path, NAME_CODE), str(path), name, table, opt_level)


def kernel_in(
    code: bytes, what: str, name: str | None, table: Atlas, opt_level: OptLevel = OptLevel.O3
) -> KernelCode:
    """Return one kernel's SASS from PTX or machine code; see `read_kernel`.

    Args:
        code: PTX text, a cubin, or a file that holds a fat binary.
        what: Where the code comes from, for messages.
        name: Entry name; None where the code has one.
        table: The table, which names the GPU.
        opt_level: Level to assemble PTX at.
    """
    return _find_kernel(_machine_code(code, what, table.gpu, opt_level), what, name, table.gpu)


def _find_kernel(
    images: Iterable[tuple[str, bytes, str]], what: str, name: str | None, gpu: GpuInfo
) -> KernelCode:
    """Return the one kernel of some cubins, each with where it is, and what is to be said of it."""
    found: dict[str, dict[bytes, tuple[str, KernelCode]]] = {}
    other = ""
    for file, image, note in images:
        try:
            listing = disassemble(image)
        except RefusedModuleError as error:
            raise InputError(f"{file}: {error}") from error
        names, target = sorted(entry_names(listing)), _target_of(listing)
        # A program holds modules of its libraries, which may have no kernel.
        if not names:
            continue
        if target and digits(target) != digits(gpu.target):
            other = other or f"{file} is assembled for {target}"
            continue
        functions = parse_listing(listing)
        for one in names:
            code = KernelCode(functions[one], functions, image, (note,) if note else ())
            found.setdefault(one, {})[image] = file, code
    if not found and other:
        raise InputError(
            f"{other}, and the table is of {gpu.name} ({gpu.target}); assemble it for that GPU, give PTX, or"
            " name a table of its own"
        )
    if not found:
        raise InputError(f"{what} holds no kernel of {gpu.target}")
    fitting = [one for one in found if name in (None, one)]
    fitting = fitting or [one for one in found if name in short_names(one)]
    if len(fitting) != 1:
        which = "" if name is None else f", of which {'several are' if fitting else 'none is'} {name!r}"
        raise ArgumentError(
            "entry", f"must name one of the kernels of {what}{which}: {', '.join(fitting or found)}"
        )
    files, codes = zip(*found[fitting[0]].values(), strict=True)
    if len(codes) > 1:
        raise InputError(
            f"{what} has {len(codes)} different kernels {fitting[0]}; name a file that has one of them"
            + (f": {', '.join(files)}" if len(set(files)) > 1 else "")
        )
    return codes[0]  # type: ignore[no-any-return]


def _machine_code(code: bytes, what: str, gpu: GpuInfo, opt_level: OptLevel) -> list[tuple[str, bytes, str]]:
    """Return cubins of the table's GPU, each with where it is and a sentence on how it was made, if any."""
    if is_cubin(code):
        _require_no_level(what, opt_level)
        return [(what, code, "")]
    images = device_images(code, what)
    own = [one for one in images if one.data and not one.is_ptx and str(one.arch) == digits(gpu.target)]
    if own:
        _require_no_level(what, opt_level)
        return [(what, one.data, "") for one in own]
    texts = [one.data.decode(errors="replace") for one in images if one.is_ptx]
    if not images:
        make = f"; make one: `nvcc -cubin -arch={gpu.target} -lineinfo {what}`" * what.endswith(".cu")
        require_ptx(code, what, make)
        texts = [code.decode(errors="replace")]
    fitting = [text for text in texts if _runs_on(text, gpu)]
    if not fitting:
        held = ", ".join(one.name for one in images) or f"PTX of {_target_of(texts[0])}"
        raise InputError(
            f"{what} holds {held}, and the table is of {gpu.name} ({gpu.target}): compile it for that GPU, or"
            " name a table of its own"
        )
    return [(what, *_assembled(text, what, gpu.target, opt_level)) for text in fitting]


def _assembled(ptx: str, what: str, target: str, opt_level: OptLevel) -> tuple[bytes, str]:
    """Return the machine code of PTX, and a sentence on how it was made, if any."""
    of_debug = _DEBUG.search(ptx) is not None
    cubin, note = assemble_any_version(ptx, what, target, OptLevel.O0 if of_debug else opt_level)
    if of_debug and opt_level is not OptLevel.O0:
        note = "; ".join(filter(None, (note, "it is PTX to debug, which is assembled at O0")))
    return cubin.image, note


def _require_no_level(what: str, opt_level: OptLevel) -> None:
    if opt_level is not OptLevel.O3:
        raise InputError(f"`opt_level` is for PTX, and {what} holds machine code; leave it out")


def _runs_on(ptx: str, gpu: GpuInfo) -> bool:
    """Return whether PTX can be assembled for a GPU: of a newer one it cannot, nor of one kind of another."""
    target = _target_of(ptx)
    own, its = digits(gpu.target), digits(target)
    return own == its or (target[-1:].isdigit() and int(its or 0) < int(own or 0))


@dataclass(frozen=True)
class CodeWork:
    """What a launch executes by its code alone.

    Attributes:
        work: At best.
        least: Along the cheaper side of each branch that nothing decides.
        most: Where both of its sides are executed, and nothing is in L2 before.
        modelled: Whether the times of these are modelled.
        missing: What of its bytes is not known, a phrase each; then the work has no bytes.
        notes: What was taken for granted, a sentence each.
        code: The machine code.
        placed: Executions of a thread by place.
        requested: Bytes that loads and stores ask for, by address.
    """

    work: KernelWork
    least: KernelWork
    most: KernelWork
    modelled: bool
    missing: tuple[str, ...]
    notes: tuple[str, ...]
    code: KernelCode
    placed: Placed
    requested: Mapping[int, float]


def static_work(
    code: KernelCode,
    launch: Launch,
    trips: Mapping[str, float],
    time_s: float,
    table: Atlas,
    probabilities: Mapping[str, float] | None = None,
    given: GivenBytes = UNKNOWN_BYTES,
) -> CodeWork:
    """Return what a launch executes and moves by its code alone.

    Args:
        code: Its machine code.
        launch: Its shape.
        trips: Trip count by loop; see `executions`.
        time_s: Its time; NaN: modelled.
        table: The run.
        probabilities: How often branches are taken; see `executions`.
        given: What is known of its bytes.

    Raises:
        InputError: A trip count is not known, or the code calls or jumps to what only its run decides.
    """
    found = executions(code.kernel, trips, probabilities, code.functions, launch)
    traffic = _traffic(found, code, launch, table.gpu, given)
    name = code.kernel.name
    work = _launch_work(name, found.counts, found.idle, traffic, launch)
    missing = traffic.missing if work.uses_global_memory else ()
    if missing:
        traffic = replace(traffic, bytes_moved=(), accesses=(), cold_bytes=0.0)
        work = replace(work, bytes_moved=(), accesses=())
    least = _launch_work(name, found.least or found.counts, (), traffic, launch)
    most = _launch_work(name, found.most or found.counts, (), traffic, launch)
    if traffic.cold_bytes:
        most = replace(most, bytes_moved=(*most.bytes_moved[:-1], (Level.DRAM, traffic.cold_bytes)))
    best, least, most = (
        _timed(one, found.idle, launch, time_s, table)
        for one in (work, replace(least, idle=work.idle), replace(most, idle=work.idle))
    )
    notes = (*code.notes, *found.notes, *traffic.notes)
    modelled = math.isnan(time_s)
    return CodeWork(best, least, most, modelled, missing, notes, code, found.placed, traffic.requested)


def _traffic(found: Executed, code: KernelCode, launch: Launch, gpu: GpuInfo, given: GivenBytes) -> Traffic:
    executions = {at: found.placed[f"{at:#x}"][1] for at in found.accesses if f"{at:#x}" in found.placed}
    copies = sum(n for op, n in found.counts if opcode_class(op) is OpcodeClass.COPY)
    caches = _caches(code, launch, gpu)
    traffic = traffic_of(found.accesses, executions, launch, found.passes, caches, given)
    if copies and not (math.isfinite(given.dram_bytes) and math.isfinite(given.l2_bytes)):
        missing = "the bytes of asynchronous copies (`l2_bytes`, `dram_bytes`)"
        return replace(traffic, missing=(*traffic.missing, missing))
    return traffic


def _caches(code: KernelCode, launch: Launch, gpu: GpuInfo) -> Caches:
    """Return what a GPU keeps for a launch; its dynamic shared memory is not known."""
    taken, sm = kernel_resources(code.image)[code.kernel.name], sm_facts(gpu.target)
    needs = BlockNeeds(launch.threads, taken.registers, taken.shared_bytes)
    lines = lines_of_a_block(sm, needs, launch.blocks, gpu.sm_count)
    return Caches(l2_bytes(gpu), LINE_BYTES * lines, gpu.sm_count * max(blocks_per_sm(needs, sm), 1))


def _launch_work(name: str, counts: Counts, idle: Counts, traffic: Traffic, launch: Launch) -> KernelWork:
    """Return the work of all threads of a launch, without its time."""
    threads = launch.blocks * launch.threads
    absent = launch.blocks * launch.warps * WARP - threads
    unused = {op: n * threads for op, n in idle}
    for op, n in counts if absent else ():
        unused[op] = unused.get(op, 0.0) + n * absent
    return KernelWork(
        name,
        tuple((op, n * threads) for op, n in counts),
        traffic.bytes_moved,
        accesses=traffic.accesses,
        idle=tuple(sorted(unused.items())),
    )


def timed_work(work: KernelWork, launch: Launch, time_s: float, table: Atlas) -> KernelWork:
    """Return a launch's work with its time.

    Args:
        work: What it executes and moves; lanes that took no part are idle.
        launch: Its shape.
        time_s: Its time; NaN: modelled by its pipes and its bytes.
        table: The run.
    """
    threads = launch.blocks * launch.threads
    return _timed(work, tuple((opcode, n / threads) for opcode, n in work.idle), launch, time_s, table)


def _timed(work: KernelWork, idle: Counts, launch: Launch, time_s: float, table: Atlas) -> KernelWork:
    """Return a launch's work with its time, given or modelled by its pipes and its bytes."""
    if not math.isnan(time_s):
        return replace(work, time_s=time_s)
    threads = launch.blocks * launch.threads
    # A warp issues what a guard turns off, too.
    issued = [(op, n / threads + dict(idle).get(op, 0.0)) for op, n in work.opcodes]
    return replace(work, time_s=launch_time_s(work, issued, launch.blocks, launch.threads, table))


def _target_of(text: str) -> str:
    """Return the target of PTX or of a listing, "" where it names none."""
    found, flags = _TARGET.search(text), _HEADER_FLAGS.search(text)
    return found[1] if found else f"sm_{flags[1]}" if flags else ""

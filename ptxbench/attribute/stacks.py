"""Where joules go, as stacks of frames: what flame graphs are made of."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.attribute.attribution import NO_KERNEL, Share
from ptxbench.attribute.launches import Launches, innermost
from ptxbench.attribute.powers import Expected
from ptxbench.attribute.program import GpuShare, ProgramEnergy
from ptxbench.attribute.ranges import Ranges
from ptxbench.attribute.recorded import RecordedProgram
from ptxbench.attribute.replay.profile import Profile, ProfileRow
from ptxbench.attribute.replay.shown import launch_shape
from ptxbench.core.demangle import demangled, short_name
from ptxbench.devices.step import NodeType
from ptxbench.sensors.trace import Float64s

# Names of templates have thousands of characters.
_LONGEST = 200
# Such as model.layers.0.mlp, of `ptxbench.torch.labelled` and `ptxbench.profile`.
_MODULE = re.compile(r"[A-Za-z_]\w*(\.\w+)+( backward)?")


@dataclass(frozen=True)
class Stack:
    """What was drawn for one thing.

    Attributes:
        frames: What it is, the outermost first.
        energy_j: Energy, J.
        time_s: Time, s.
        calls: How often it ran.
    """

    frames: tuple[str, ...]
    energy_j: float
    time_s: float
    calls: float


@dataclass(frozen=True)
class Stacks:
    """All stacks of one measurement.

    Attributes:
        title: What was measured.
        stacks: They add up to what is known.
    """

    title: str
    stacks: tuple[Stack, ...]


@dataclass
class Frame:
    """A frame with what it holds.

    Attributes:
        name: Its name.
        energy_j: Energy of its own and of all frames in it, J.
        own_j: Energy of its own, J.
        time_s: Time of all of it, s.
        own_s: Time of its own, s.
        children: Frames in it, by name.
    """

    name: str
    energy_j: float = 0.0
    own_j: float = 0.0
    time_s: float = 0.0
    own_s: float = 0.0
    children: dict[str, Frame] | None = None

    def within(self) -> tuple[Frame, ...]:
        """Return the frames in it, the largest first."""
        return tuple(sorted((self.children or {}).values(), key=lambda one: -one.energy_j))


def tree(stacks: Stacks) -> Frame:
    """Return stacks as a tree, whose root has the title."""
    root = Frame(stacks.title)
    for stack in stacks.stacks:
        frame = root
        frame.energy_j, frame.time_s = frame.energy_j + stack.energy_j, frame.time_s + stack.time_s
        for name in stack.frames:
            frame.children = frame.children or {}
            frame = frame.children.setdefault(name, Frame(name))
            frame.energy_j, frame.time_s = frame.energy_j + stack.energy_j, frame.time_s + stack.time_s
        frame.own_j, frame.own_s = frame.own_j + stack.energy_j, frame.own_s + stack.time_s
    return root


def profile_stacks(profile: Profile) -> Stacks:
    """Return the rows of a profile: modules, a short name, and in it each whole name and launch shape.

    Of a kind that several modules launch each has a part by its launches.
    """
    stacks = []
    for row in profile.rows:
        modules = profile.modules_of(row) or {"": row.calls}
        for module, calls in modules.items() if math.isfinite(row.energy_j) else ():
            part = calls / max(row.calls, 1)
            frames = (*module_frames(module), *_frames(row))
            stacks.append(Stack(frames, row.energy_j * part, row.time_s * part, calls))
    simulated = " (SIMULATED)" if profile.is_simulated else ""
    return Stacks(f"one step on {profile.gpu}{simulated}", tuple(stacks))


def module_frames(label: str) -> tuple[str, ...]:
    """Return the label of a module as frames, each within the one before; another text is one frame."""
    return tuple(label.split(".")) if _MODULE.fullmatch(label) else tuple(filter(None, [label]))


def program_stacks(
    recorded: RecordedProgram,
    program: ProgramEnergy,
    profiles: Sequence[Profile] = (),
    expected: Mapping[str, Expected] | None = None,
) -> Stacks:
    """Return what a program took: GPU, NVTX range or window where there are any, and kernel.

    A kernel counts for the range that was opened last when it ran, in proportion to its time. In it are
    classes of its opcodes and the memory levels, by a table's estimate, where that knows them: with a tilde,
    as they are estimated.

    Args:
        recorded: The run.
        program: What it took.
        profiles: Its kernels by what was launched again; they stand in the place of what the readings tell.
        expected: What a table expects, by kernel name.
    """
    by_gpu = {one.gpu: one for one in profiles}
    stacks: list[Stack] = []
    for board, gpu in zip(recorded.boards, program.gpus, strict=True):
        launches = recorded.log.by_gpu.get(board.facts.uuid)
        parts = {} if launches is None else by_range(launches, recorded.log.ranges)
        profile = by_gpu.get(gpu.energy.gpu)
        if profile is not None:
            stacks += _of_profile(profile, gpu, parts, expected or {})
            continue
        for share in gpu.kernels:
            stacks += _of_share(share, (gpu.energy.gpu,), parts, expected or {})
        if not gpu.kernels:
            stacks += _whole(gpu, program.time_s)
    return Stacks(" ".join(program.command), tuple(stacks))


def by_range(launches: Launches, ranges: tuple[Ranges, ...]) -> dict[str, dict[str, float]]:
    """Return of each kernel name what share of its time falls into which range; "" for none.

    Args:
        launches: The kernels.
        ranges: The ranges; without any there is nothing to tell.
    """
    if not ranges or not len(launches):
        return {}
    inner = innermost(ranges)
    middle_ns = (launches.start_ns + launches.end_ns) // 2
    at = np.searchsorted(inner.start_ns, middle_ns, side="right") - 1
    is_inside = (at >= 0) & (middle_ns < inner.end_ns[np.maximum(at, 0)])
    which = np.where(is_inside, inner.name[np.maximum(at, 0)], len(inner.names))
    times = (launches.end_ns - launches.start_ns) * (1.0 if launches.weight is None else launches.weight)
    table: Float64s = np.zeros((len(launches.names), len(inner.names) + 1))
    np.add.at(table, (launches.name, which), np.maximum(times, 1e-9))
    names = (*inner.names, "")
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-9)
    return {
        name: {names[i]: float(row[i]) for i in np.flatnonzero(row > 0)}
        for name, row in zip(launches.names, shares, strict=True)
    }


def _frames(row: ProfileRow) -> tuple[str, ...]:
    """Return a short name, and in it the whole name with the launch shape, where these say more."""
    if row.kind is None or row.kind.node.type is not NodeType.KERNEL:
        return (row.name,)
    return short_name(row.name, _LONGEST), f"{row.name}, {launch_shape(row.kind.node)}"


def _by_part(stack: Stack, expected: Expected | None) -> Iterator[Stack]:
    """Yield the parts of a kernel by a table's estimate, or the kernel where there is none."""
    if expected is None or not expected.parts:
        yield stack
        return
    for name, part in expected.parts.items():
        frames = (*stack.frames, f"~ {name}")
        yield Stack(frames, stack.energy_j * part, stack.time_s * part, stack.calls * part)


def _of_share(
    share: Share,
    frames: tuple[str, ...],
    parts: dict[str, dict[str, float]],
    expected: Mapping[str, Expected],
) -> Iterator[Stack]:
    """Yield the stacks of a row of a program."""
    if share.members:
        alone = len(share.names) == 1
        group = share.names[0] if alone else f"{len(share.names)} kernels, not separable"
        for one in share.members:
            yield from _of_share(one, (*frames, group), {}, expected)
        return
    if not math.isfinite(share.energy_j):
        return
    calls = share.calls or 0
    if share.is_whole:
        yield Stack(frames, share.energy_j, share.time_s, calls)
        return
    for name, part in parts.get(share.names[0], {"": 1.0}).items():
        whole = (*frames, *module_frames(name), demangled(share.names[0]))
        stack = Stack(whole, share.energy_j * part, share.time_s * part, calls * part)
        yield from _by_part(stack, expected.get(share.names[0]))


def _of_profile(
    profile: Profile,
    gpu: GpuShare,
    parts: dict[str, dict[str, float]],
    expected: Mapping[str, Expected],
) -> Iterator[Stack]:
    """Yield the stacks of what was launched again, and of the time without a kernel."""
    for row in profile.rows:
        if not math.isfinite(row.energy_j):
            continue
        name = "" if row.kind is None else row.kind.node.name
        for within, part in parts.get(name, {"": 1.0}).items():
            frames = (gpu.energy.gpu, *module_frames(within), *_frames(row))
            stack = Stack(frames, row.energy_j * part, row.time_s * part, row.calls * part)
            yield from _by_part(stack, expected.get(name))
    left_j = gpu.energy.energy_j - profile.step.energy_j
    if left_j > 0:
        yield Stack((gpu.energy.gpu, NO_KERNEL), left_j, 0.0, 0)


def _whole(gpu: GpuShare, time_s: float) -> Iterator[Stack]:
    if math.isfinite(gpu.energy.energy_j):
        yield Stack((gpu.energy.gpu,), gpu.energy.energy_j, time_s, 1)

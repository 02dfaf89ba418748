"""A program's kernels replayed on the simulated GPU, which draws a hidden power for each of their names.

It tells how well kernels of this program, with these times, can be told apart; its numbers are no
measurements.
"""

from __future__ import annotations

from dataclasses import replace

from ptxbench.api.board import open_boards
from ptxbench.api.gpu import Gpu
from ptxbench.attribute.program import recorded_board, recording
from ptxbench.attribute.recorded import RecordedProgram, program_manifest
from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.gpu import SimulatedGpu


def replay(recorded: RecordedProgram, gpu: SimulatedGpu) -> RecordedProgram:
    """Return a run as the simulated GPU draws it, with the times of the kernels that were recorded.

    Args:
        recorded: The run; of several GPUs the one with the most kernels counts.
        gpu: The simulated GPU.

    Raises:
        InputError: No kernel was recorded.
    """
    log, facts = recorded.log, recorded.facts
    if not log.by_gpu:
        raise InputError("the run has no kernels that could be replayed")
    launches = max(log.by_gpu.values(), key=len)
    (board,) = open_boards(Gpu(gpu))
    with recording([board]) as recordings:
        start_ns = gpu.clock.now_ns()
        moved = start_ns - facts.start_ns
        moved_log = replace(log, by_gpu={"": launches}, replays=()).at_other_times(lambda ns: ns + moved)
        here = moved_log.by_gpu[""]
        gpu.draw_kernels(
            tuple(here.names[i] for i in here.name),
            here.start_ns - start_ns,
            here.end_ns - start_ns,
            facts.end_ns - facts.start_ns,
        )
        end_ns = gpu.clock.now_ns()
    drawn = recorded_board(recordings[0])
    replayed = program_manifest(
        facts.program, facts.exit_code, (start_ns, end_ns), [drawn.facts], moved_log, is_simulated=True
    )
    return RecordedProgram(replayed, (drawn,), moved_log)

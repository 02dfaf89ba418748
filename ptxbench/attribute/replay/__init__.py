"""The energy of every kernel of a short step, by launching each kind of it again and again.

A step of some milliseconds holds a thousand launches, too short for any power sensor. So it is captured as a
CUDA graph, and taken apart, from one module to the next:

    capture      a callable -> a graph
    kinds        its launches -> kinds: one function, launch shape and attributes each
    plan         a kind -> an order of launches that fills a window, with idle time where it needs some
    measure      every kind, the step itself, idle and the gaps between launches -> recordings of power
    replayed     what is kept on disk of it: `step.json` beside the recordings
    profile      recordings -> rows and their closure against the step: arithmetic that `report` does again
    shown        rows -> text and JSON
    profiling    `ptxbench.profile`, which does all of it

What touches the GPU is in `ptxbench.devices.cuda_step`.
"""

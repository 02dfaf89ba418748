"""What CUPTI costs decoding by a CUDA graph in PyTorch while it looks, between turns, and once it is left.

    nvcc -O2 -shared -Xcompiler -fPIC -o graph_tracing.so studies/programs/graph_tracing.cu
    PYTHONPATH=runners:. CUPTI=... python studies/programs/graph_tracing.py graph_tracing.so irkrKrzr ...

Each word is a process of its own, a letter a step, as in `graph_tracing.cu`: `k`, `K`, `c`, `z` and `Z`
switch CUPTI; `i` makes a graph of a token of a Llama of 1.1 B, `I` does with records off while it is
instantiated; `r` decodes 100 tokens and reads each, `a` reads none and waits for all. A line says what a step
took.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import sys
import time
from typing import Any

import torch
from profile_steps import _STEPS

TOKENS = 100


def main() -> int:
    """Run each word in a child."""
    library = ctypes.CDLL(os.path.realpath(sys.argv[1]))
    for word in sys.argv[2:]:
        print(f"== {word}", flush=True)
        child = os.fork()
        if child == 0:
            run(library, word)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if status:
            print(f"{word} ended with status {status}", flush=True)
    return 0


def run(library: ctypes.CDLL, word: str) -> None:
    """Take the steps of a word."""
    letters = word.lstrip("kcg")
    for letter in word[: len(word) - len(letters)]:
        switch(library, letter, word[0])
    step, _ = _STEPS["decode"]()
    step()
    torch.cuda.synchronize()
    graph: Any = None
    tokens: Any = None
    for at, letter in enumerate(letters, len(word) - len(letters) + 1):
        if letter in "iI":
            graph, tokens = made(library, step, letter == "I")
        elif letter in "ra":
            measure(library, word[:at], graph, tokens if letter == "r" else None)
        else:
            switch(library, letter, word[:at])


def switch(library: ctypes.CDLL, letter: str, said: str) -> None:
    """Switch CUPTI, and say what that took."""
    start = time.perf_counter()
    code = library.trace(ctypes.c_char(letter.encode()))
    print(f"{said}: {(time.perf_counter() - start) * 1e6:.0f} us to switch, code {code}", flush=True)


def made(library: ctypes.CDLL, step: Any, pauses: bool) -> tuple[Any, Any]:
    """Return a graph of a step and its tokens."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        tokens = step()
    if pauses:
        library.trace(ctypes.c_char(b"K"))
    graph.instantiate()
    if pauses:
        library.trace(ctypes.c_char(b"k"))
    return graph, tokens


def measure(library: ctypes.CDLL, said: str, graph: Any, tokens: Any) -> None:
    """Decode, and say what a token took: all of it, and the host's call of the graph."""
    each, launch = [], []
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(TOKENS):
        start = time.perf_counter()
        graph.replay()
        launch.append(time.perf_counter() - start)
        if tokens is not None:
            tokens.cpu()
            each.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    mean = (time.perf_counter() - begin) / TOKENS
    median = [round(statistics.median(one or [0]) * 1e6) for one in (each, launch)]
    took = f"{mean * 1e6:.0f} us a token, median {median[0]}, call {median[1]};"
    print(f"{said}: {took}", end="", flush=True)
    library.trace_say()


if __name__ == "__main__":
    sys.exit(main())

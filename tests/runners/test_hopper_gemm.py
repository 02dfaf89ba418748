"""`runners/hopper_gemm.py`: the product by bulk copies is right, on a GPU that has them."""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest

RUNNER = Path(__file__).parents[2] / "runners" / "hopper_gemm.py"


def test_a_size_that_tiles_do_not_divide_is_refused_before_a_gpu_is_asked(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hopper_gemm", "--size", "1000"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(RUNNER), run_name="__main__")
    assert ended.value.code == 2
    assert "--size 1000: tiles divide multiples of 512 alone" in capsys.readouterr().err


@pytest.mark.gpu
def test_each_form_gives_what_torch_gives():
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs an H100 or H200")
    runner = runpy.run_path(str(RUNNER))
    forms = [
        (replace(form, dtype=name), kind)
        for form in runner["FORMS"]
        for name, kind in runner["DTYPES"].items()
    ]
    for form, kind in forms:
        product = runner["loaded"](form)
        for m, n, k in ((512, 512, 64), (2560, 1024, 4096)):
            a = torch.randn((m, k), dtype=getattr(torch, kind), device="cuda")
            b = torch.randn((k, n), dtype=getattr(torch, kind), device="cuda")
            torch.testing.assert_close(product(a, b), a @ b, rtol=1e-2, atol=1e-2 * k**0.5)

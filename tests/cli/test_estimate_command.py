"""`ptxbench estimate` as a command: its page, and what is said of code by address and by dimension."""

import json
from pathlib import Path

from ptxbench.cli.main import run as main

KERNELS = Path(__file__).parents[1] / "model" / "kernels"
SHAPE = ("--grid", "132", "--block", "256")


def test_the_page_explains_what_is_printed(tmp_path, capsys):
    page = tmp_path / "estimate.html"
    words = ["estimate", str(KERNELS / "elementwise.ptx"), *SHAPE, "--trips", "0=1000", "--table", "h200"]
    assert main([*words, "--html", str(page)]) == 0
    printed, text = capsys.readouterr().out, page.read_text()
    energy = printed.splitlines()[3]
    assert " J (95%: " in energy
    for expected in (energy, "Where the joules go", "every opcode at 12 pJ", "compile with -lineinfo"):
        assert expected in text
    assert "every opcode at 12 pJ" in printed
    # A store has a row, with its bytes: what stands in for the store alone does not gainsay its own row.
    (store,) = [line for line in printed.splitlines() if line.startswith("  STG.E, ")]
    assert "its own row has its bytes in it" in store
    assert "BRA" in printed.splitlines()[2]
    (branch,) = [line for line in printed.splitlines() if line.startswith("  BRA, ")]
    assert "its own row" not in branch
    assert main([*words, "--html", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["energy_j"] > 0
    assert main([*words, "--html", str(tmp_path / "none" / "e.html")]) == 2
    assert main([*words, "--html", str(page), "--against", "other.ptx"]) == 2
    assert "leave --against out" in capsys.readouterr().err


def test_a_file_without_a_kernel_is_refused_before_any_table_is_read(tmp_path, capsys):
    text = tmp_path / "notes.txt"
    text.write_text("no kernel")
    for file, why in ((tmp_path / "missing.ptx", "No such file"), (text, "neither PTX with an entry nor")):
        assert main(["estimate", str(file), *SHAPE, "--table", "no-table"]) == 2
        assert why in capsys.readouterr().err


def test_another_kernel_may_have_another_name(capsys):
    words = ["estimate", str(KERNELS / "operators.ptx"), "--entry", "f_sin", *SHAPE, "--table", "h200"]
    assert main([*words, "--against", f"{KERNELS / 'operators.ptx'}::f_pow"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("A: f_sin, B: f_pow, on NVIDIA H200")
    assert "bytes from DRAM (--dram-bytes)" in printed
    assert main([*words, "--against", f"{KERNELS / 'operators.ptx'}::nothing"]) == 2
    assert "--against FILE::ENTRY must name one of the kernels of " in capsys.readouterr().err
    for name, value in (("trips", "0=8"), ("probability", "all=0.5")):
        assert main([*words, "--against", "x.ptx", f"--{name}", value]) == 2
        assert f"with --against say whose it is, A:{value} or B:{value}" in capsys.readouterr().err
    assert main([*words, "--against", "kernel.toml"]) == 2
    assert "--grid does not go with a kernel that is run in the emulator" in capsys.readouterr().err


def test_each_of_two_kernels_has_its_own_trips(capsys):
    file = str(KERNELS / "elementwise.ptx")
    words = ["estimate", file, *SHAPE, "--table", "h200", "--json", "--against", file]
    assert main([*words, "--trips", "A:0=1000", "--trips", "b:0=2000"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 1.9 < found["against"]["energy_j"] / found["energy_j"] < 2


def test_a_grid_and_a_block_are_given_by_dimension_too(capsys):
    words = ["estimate", str(KERNELS / "elementwise.ptx"), "--trips", "0=100", "--table", "h200", "--json"]
    assert main([*words, "--grid", "66,2", "--block", "16,16"]) == 0
    found = json.loads(capsys.readouterr().out)
    # Threads and blocks that differ in y alone take the same addresses.
    assert any("8.448e+05 bytes" in note for note in found["notes"])
    for wrong in ("66,2,1,1", "66x2", "0,2", ""):
        assert main([*words, "--grid", wrong, "--block", "16"]) == 2
        assert "--grid" in capsys.readouterr().err


def test_a_probability_is_given_by_address_or_for_all(capsys):
    words = [
        "estimate",
        str(KERNELS / "library.ptx"),
        "--entry",
        "adamw",
        *SHAPE,
        "--table",
        "h200",
        "--json",
    ]
    energies_j = []
    for share in ("0x70=0", "0x70=0.5"):
        assert main([*words, "--probability", share, "--probability", "all=0.5"]) == 0
        energies_j.append(json.loads(capsys.readouterr().out)["energy_j"])
    # At 0x70 threads behind the last element leave.
    assert energies_j[1] < energies_j[0]
    for wrong in ("all=2", "all", "=0.5", "0x9990=0.5"):
        assert main([*words, "--probability", wrong]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1

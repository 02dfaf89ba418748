"""list, show, verify and gpus: what they print and how they exit."""

import json
import re
from dataclasses import replace

import pytest
from fakes.modules import built
from fakes.sample import SAMPLE, STARTER_ROWS

from ptxbench.catalogue import search, select
from ptxbench.catalogue.load import find_instruction
from ptxbench.cli.main import run
from ptxbench.core import toolchain
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import GpuError
from ptxbench.core.target import find_target

HOPPER = find_target("sm_90a")
FMA = find_instruction("fma.rn.f32")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """One cache for all of these tests, and not the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def catalogue(monkeypatch):
    """Put rows in place of the shipped ones."""

    def put(*rows):
        for module in (select, search):
            monkeypatch.setattr(module, "load_catalogue", lambda: rows)

    return put


def printed(capsys, arguments, code=0):
    assert run(arguments) == code
    return capsys.readouterr().out


def document(capsys, arguments, code=0):
    return json.loads(printed(capsys, [*arguments, "--json"], code))


def test_list_prints_every_row_in_plain_columns(capsys, catalogue):
    catalogue(*STARTER_ROWS)
    lines = printed(capsys, ["cost", "--list"]).splitlines()
    assert [line.split()[0] for line in lines[1:]] == [row.name for row in STARTER_ROWS]
    assert all("\x1b" not in line and line == line.rstrip() for line in lines)
    starts = {re.search(r"(?<=\s)(thread|warp)\b", line).start() for line in lines[1:]}
    assert starts == {lines[0].index("for each")}


def test_list_filters_and_says_when_nothing_is_left(capsys, catalogue):
    catalogue(*STARTER_ROWS)
    names = [
        row["name"]
        for row in document(capsys, ["cost", "--list", "fma.*", "--type", "f64", "--target", "sm_80"])[
            "instructions"
        ]
    ]
    assert names == ["fma.rn.f64"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope"], "no instruction fits 'nope'; "),
        (["fma.rn.f23"], "no instruction fits 'fma.rn.f23'; did you mean fma.rn.f"),
        (["fma", "--target", "sm_75", "--sass", "DADD", "--json"], "'fma' fits the other conditions"),
        (["--sass", "NOPE"], "fits all of these conditions"),
    ],
)
def test_a_list_of_nothing_is_exit_code_2_and_one_line(capsys, arguments, words):
    assert run(["cost", "--list", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err


def test_show_prints_the_ptx_the_loop_and_the_verdict(capsys):
    text = printed(capsys, ["show", "fma.rn.f32"])
    module = built("fma.rn.f32")
    ptx, sass, verdict = re.split(r"==== (?:ptx|sass|verdict) ====\n", text)[1:]
    assert ptx.strip() == module.ptx.strip()
    assert sass.count(" FFMA ") == 64
    assert sass.count("BRA") == 1
    assert verdict.startswith("fma.rn.f32 at O3 for sm_90a: exact\n")
    assert "found:      FFMA  (1 SASS for one PTX instruction)" in verdict
    assert re.search(r"^  assembler:  (ptxas|nvJitLink) \d", verdict, re.MULTILINE)


def test_show_prints_one_part_alone_and_at_another_level_and_target(capsys):
    assert printed(capsys, ["show", "fma.rn.f32", "--part", "ptx"]).strip() == built("fma.rn.f32").ptx.strip()
    text = printed(
        capsys, ["show", "popc.b32", "--opt-level", "O0", "--target", "sm_80", "--part", "verdict"]
    )
    assert text.startswith("popc.b32 at O0 for sm_80: expands\n")
    assert find_instruction("popc.b32").note in text


def test_show_as_json_holds_the_same(capsys):
    shown = document(capsys, ["show", "fma.rn.f32", "--opt-level", "O0"])
    module = built("fma.rn.f32", OptLevel.O0)
    assert (shown["verdict"], shown["target"], shown["opt_level"]) == ("exact", "sm_90a", "O0")
    assert shown["ptx"] == module.ptx
    assert shown["cubin_sha256"] == module.cubin.sha256
    assert shown["sass"] == [["FFMA", 1.0]]


def test_show_as_json_has_no_part(capsys):
    assert run(["show", "fma.rn.f32", "--json", "--part", "ptx"]) == 2
    assert "--json has every part; leave out --part ptx." in capsys.readouterr().err


def test_list_takes_several_patterns_and_says_what_was_not_found_by_name(capsys):
    assert run(["cost", "--list", "add.f32", "HMMA.16816.F16", "--json"]) == 0
    printed = capsys.readouterr()
    names = [row["name"] for row in json.loads(printed.out)["instructions"]]
    assert names == ["add.f32", "mma.m16n8k16.f16.f16.f16.f16"]
    assert printed.err == "ptxbench: found HMMA.16816.F16 by SASS: mma.m16n8k16.f16.f16.f16.f16\n"


def test_show_prints_each_of_several_instructions_under_its_name(capsys):
    text = printed(capsys, ["show", "fma.rn.f32", "add.f32", "--part", "verdict"])
    # In catalogue order.
    found = re.findall(r"^#+ (.*) #+\n(\S+) at O3", text, re.MULTILINE)
    assert found == [("fma.rn.f32", "fma.rn.f32"), ("add.f32", "add.f32")]


def test_show_goes_on_past_an_instruction_that_cannot_be_measured(capsys):
    assert run(["show", "ld.shared.cluster.b32", "fma.rn.f32", "--part", "verdict"]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("######## fma.rn.f32 ########")
    assert said.err.startswith("ptxbench: instruction ld.shared.cluster.b32 cannot be measured: needs a")
    assert run(["show", "ld.shared.cluster.b32"]) == 2


def test_show_finds_by_ptx_and_refuses_several_as_json_and_a_word_for_very_many(capsys):
    ptx = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};"
    assert document(capsys, ["show", ptx])["instruction"] == "mma.m16n8k16.f32.f16.f16.f32"
    assert run(["show", "HMMA.16816.F32", "--json"]) == 2
    assert "--json shows one instruction; name one of mma.m16n8k16.f32.f16" in capsys.readouterr().err
    assert run(["show", "wgmma"]) == 2
    assert "give 'wgmma.*' for all of them" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["cost", "show", "table", "verify"])
def test_every_command_that_takes_instructions_says_alike_what_finds_them(capsys, command):
    text = " ".join(printed(capsys, [command, "--help"]).split())
    assert "PATTERN]..." in text or "PATTERN..." in text
    assert "PATTERN is a name (fma.rn.f32), a pattern of names ('mma.*'), PTX as a file has it" in text


def test_show_says_how_operands_change_where_the_reference_knows(capsys):
    text = printed(capsys, ["show", "brev.b32", "--part", "operands"])
    assert "16.0 bits of the registers that it reads change" in text
    assert "in 0% of the copies none" in text
    shown = document(capsys, ["show", "brev.b32"])
    assert shown["operand_bits_changed"] == pytest.approx(16, abs=0.2)
    unknown = ["show", "shfl.sync.bfly.b32"]
    assert "the reference does not compute this loop" in printed(capsys, [*unknown, "--part", "operands"])
    assert document(capsys, unknown)["operands_still"] is None


def test_show_of_a_refused_row_prints_all_of_it_and_exits_1(capsys, monkeypatch):
    wrong = replace(FMA, sass=tuple(replace(e, counts=(("DFMA", 1.0),)) for e in FMA.sass))
    monkeypatch.setattr(search, "load_named", lambda _names: {"fma.rn.f32": wrong})
    text = printed(capsys, ["show", "fma.rn.f32"], code=1)
    assert "refused (target kernel: 0 DFMA where 64 copies make 64;" in text


def test_verify_counts_each_class_and_exits_0(capsys, catalogue):
    rows = SAMPLE[::6]
    catalogue(*rows)
    lines = printed(capsys, ["verify"]).splitlines()
    heading = lines[0].split()
    counts = {
        line.split()[1]: dict(zip(heading[2:], map(int, line.split()[2:]), strict=True))
        for line in lines[1:3]
    }
    for level in OptLevel:
        given_up = [
            row
            for row in rows
            for form in row.forms(level)
            if row.exists_on(HOPPER) and row.refusal(level, HOPPER.name, form)
        ]
        assert counts[level]["refused"] == len(given_up)
        assert counts[level]["rows"] == sum(len(row.forms(level)) for row in rows)
        assert sum(n for name, n in counts[level].items() if name != "rows") == counts[level]["rows"]


def test_verify_as_json_has_a_line_a_row(capsys):
    rows = document(capsys, ["verify", "fma.rn.f16x2", "--opt-level", "O3"])["rows"]
    assert rows[0] == {
        "instruction": "fma.rn.f16x2",
        "category": "half-precision",
        "target": "sm_90a",
        "opt_level": "O3",
        "form": "latency",
        "verdict": "mixture",
        "sass": "HFMA2*0.5 HFMA2.MMA*0.5",
        "sass_per_ptx": 1.0,
        "reason": "",
        "declared": False,
    }


def test_verify_lists_refused_rows_with_the_whole_reason_and_exits_1(capsys, catalogue):
    wrong = replace(FMA, name="wrong", sass=tuple(replace(e, counts=(("DFMA", 1.0),)) for e in FMA.sass))
    catalogue(FMA, wrong)
    text = printed(capsys, ["verify", "--opt-level", "O0"], code=1)
    refused = text.split("refused:\n")[1].splitlines()
    assert len(refused) == 2
    assert refused[1].startswith("wrong ")
    assert "0 DFMA where 64 copies make 64; what the catalogue does not expect (+64 FFMA" in refused[1]


def test_verify_of_a_row_that_the_target_lacks_is_no_failure(capsys, catalogue):
    catalogue(replace(FMA, min_target=90))
    (row,) = document(capsys, ["verify", "--target", "sm_80", "--opt-level", "O0"])["rows"]
    assert (row["verdict"], row["sass"], row["sass_per_ptx"]) == ("absent", "", None)
    assert "needs compute capability 9.0" in row["reason"]


def test_a_missing_tool_is_one_line_with_the_cure(capsys, monkeypatch, tmp_path):
    toolchain.tool_path.cache_clear()
    monkeypatch.setattr("importlib.metadata.files", lambda _wheel: [])
    monkeypatch.setenv("PATH", str(tmp_path))
    try:
        for arguments in (["show", "fma.rn.f32"], ["verify"]):
            assert run(arguments) == 2
            captured = capsys.readouterr()
            assert captured.out == ""
            assert re.fullmatch(r"ptxbench: error: ptxas not found: .*nvidia-cuda-nvdisasm'\n", captured.err)
    finally:
        toolchain.tool_path.cache_clear()


def test_the_library_in_the_place_of_ptxas_passes_on_hopper_and_says_what_it_lacks_elsewhere(
    capsys, monkeypatch
):
    toolchain.tool_path.cache_clear()
    toolchain.tool_version.cache_clear()
    monkeypatch.setitem(toolchain._WHEELS, "ptxas", {"nvidia-nvjitlink": "libnvJitLink.so"})
    rows = ["fma.rn.f32", "div.rn.f32", "call.uni", "brx.idx"]
    try:
        assert run(["verify", *rows, "--target", "sm_90a"]) == 0
        assert "note" not in capsys.readouterr().err
        assert run(["verify", *rows, "--target", "sm_80"]) == 1
        captured = capsys.readouterr()
        assert "div.rn.f32" in captured.out
        assert re.search(r"note: nvJitLink 13\.0\.\d+ calls .*'pip install \"nvidia-cuda-nvcc", captured.err)
    finally:
        toolchain.tool_path.cache_clear()
        toolchain.tool_version.cache_clear()


def test_gpus_without_a_driver_lists_the_simulated_ones_and_says_why(capsys, monkeypatch):
    def no_driver():
        raise GpuError("no driver here")

    monkeypatch.setattr("ptxbench.devices.select.list_gpus", no_driver)
    assert run(["gpus"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "ptxbench: no real GPU: no driver here\n"
    assert re.search(
        r"^simulated:h200 +NVIDIA H200 \(simulated\) +sm_90a +132 +700 ", captured.out, re.MULTILINE
    )


def test_gpus_as_json_puts_real_ones_first(capsys, monkeypatch):
    from ptxbench.core.gpu_info import GpuKind
    from ptxbench.devices.select import ListedGpu
    from ptxbench.devices.simulated import SimulatedGpu

    real = replace(
        SimulatedGpu().info, index=0, kind=GpuKind.REAL, name="NVIDIA X", power_limit_w=float("nan")
    )
    monkeypatch.setattr("ptxbench.devices.select.list_gpus", lambda: (ListedGpu(0, real.name, real),))
    listed = document(capsys, ["gpus"])
    assert listed["no_real_gpu"] == ""
    assert (listed["gpus"][0]["gpu"], listed["gpus"][0]["kind"], listed["gpus"][0]["power_limit_w"]) == (
        "0",
        "real",
        None,
    )
    assert all(gpu["kind"] == "simulated" for gpu in listed["gpus"][1:])

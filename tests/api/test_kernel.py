"""Kernels estimated by the public interface: what it takes, and what it refuses."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes import run as fake
from fakes.fat_binary import HOST, entry, fatbin

import ptxbench
from ptxbench.analysis.static_power import StaticPower
from ptxbench.api.table import Table
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import InputError
from ptxbench.model.clocks.ridge import PowerCurve
from ptxbench.model.estimate import Machine
from ptxbench.model.opcode_energies import Known, OpcodeEnergies
from ptxbench.model.terms import UNFITTED, KindActivity

KERNELS = Path(__file__).parents[1] / "model" / "kernels"
PTX = KERNELS / "elementwise.ptx"
LAUNCH = {"grid": 132, "block": 256, "trips": {0: 100}}
BAD = [math.nan, math.inf, -math.inf, -1, 1e300]


@pytest.fixture
def table():
    manifest = fake.manifest()
    made = Table((), replace(manifest, gpus=(replace(manifest.gpu, max_sm_clock_mhz=1980.0),)))
    opcode_energies = OpcodeEnergies({"FFMA": Known(14.0, 0.1), "IADD3": Known(8.0, 0.1)}, {})
    terms = replace(UNFITTED, kinds=(KindActivity("sparse", 0.3, 0.1),))
    machine = Machine(opcode_energies, terms, StaticPower(120.0, 40.0, 0.5, 0.1, 0.01), math.nan)
    made.__dict__["_atlas"] = SimpleNamespace(
        gpu=made.gpu, machine=machine, cycles={"FFMA": 0.25}, calibration=None
    )
    return made


def test_a_file_its_text_and_its_bytes_are_one_kernel(table):
    by_path = ptxbench.estimate_kernel(PTX, table=table, **LAUNCH)
    assert by_path.low_j < by_path.energy_j < by_path.high_j
    assert by_path.energy_j == pytest.approx(sum(part.energy_j for part in by_path.parts))
    assert ptxbench.estimate_kernel(str(PTX), table=table, **LAUNCH) == by_path
    assert ptxbench.estimate_kernel(PTX.read_text(), table=table, **LAUNCH) == by_path
    assert ptxbench.estimate_kernel(PTX.read_bytes(), table=table, **LAUNCH) == by_path


OPERATORS = (
    *("f_div", "f_rcp", "f_sqrt", "f_rsqrt", "f_exp", "f_sin", "f_pow", "f_mod", "f_tanh", "f_silu"),
    *("f_fdividef", "d_div", "d_sqrt", "d_exp", "i_div64", "i_div32"),
)


def test_each_operator_of_cuda_is_estimated_from_its_code():
    code, table = (KERNELS / "operators.ptx").read_text(), ptxbench.load_table("h200")
    found = {
        name: ptxbench.estimate_kernel(code, entry=name, table=table, grid=1056, block=256, time_s=1e-5)
        for name in OPERATORS
    }
    dynamic_j = {
        name: sum(part.energy_j for part in one.parts if part.name not in ("static", "active chip"))
        for name, one in found.items()
    }
    # What is exact costs more than what is approximate, and 64 bits more than 32.
    assert dynamic_j["f_fdividef"] < dynamic_j["f_rcp"] < dynamic_j["f_div"] < dynamic_j["d_div"]
    assert dynamic_j["i_div32"] < dynamic_j["i_div64"]
    # The loop of large angles and remainders is for rare operands.
    assert dynamic_j["f_sin"] < 3 * dynamic_j["f_exp"]
    for name in ("f_div", "f_rcp", "f_sqrt", "f_silu", "d_div", "d_sqrt", "f_sin", "f_mod"):
        assert any("slow paths count as not taken" in note for note in found[name].notes), name
    assert not any("slow paths" in note for note in found["f_exp"].notes)


@pytest.mark.parametrize(
    ("entry", "trips"),
    [("softmax", {0: 16, 1: 4, 2: 16}), ("layer_norm", {0: 32, 1: 8, 2: 0, 3: 8}), ("adamw", {})],
)
def test_kernels_of_libraries_are_estimated_from_their_code(entry, trips):
    words = {"entry": entry, "table": "h200", "grid": 1056, "block": 256, "time_s": 1e-5}
    found = ptxbench.estimate_kernel(KERNELS / "library.ptx", trips=trips, **words)
    assert 0 < found.low_j < found.energy_j < found.high_j
    sure = ptxbench.estimate_kernel(KERNELS / "library.ptx", trips=trips, probability={"all": 0.5}, **words)
    assert sure.energy_j == pytest.approx(found.energy_j)
    assert sure.high_j <= found.high_j


# What it reads at an address that it has read is not told by its code.
GATHER = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry gather(.param .u64 p, .param .u64 q) {
    .reg .u64 %rd<9>;
    .reg .u32 %r<9>;
    .reg .f32 %f<4>;
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [q];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd1, %rd3;
    ld.global.u32 %r2, [%rd4];
    mul.wide.u32 %rd5, %r2, 4;
    add.u64 %rd6, %rd2, %rd5;
    ld.global.f32 %f1, [%rd6];
    fma.rn.f32 %f2, %f1, %f1, %f1;
    st.global.f32 [%rd4], %f2;
    ret;
}
"""


def test_only_without_bytes_the_interval_is_that_of_measured_kernels_without_bytes():
    words = {"table": "h200", "grid": 1056, "block": 256, "time_s": 1e-4}
    unknown = ptxbench.estimate_kernel(GATHER, **words)
    known = ptxbench.estimate_kernel(GATHER, dram_bytes=1e6, l2_bytes=1e6, **words)
    said = [[note for note in one.notes if "measured kernels" in note] for one in (unknown, known)]
    assert [len(notes) for notes in said] == [1, 0]
    assert said[0][0].endswith("times their estimate without bytes")
    assert math.isnan(unknown.energy_j)
    assert unknown.low_j < known.low_j < known.high_j < unknown.high_j / 2


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"probability": {"all": 1.5}}, "probability at all"),
        ({"probability": {"0x10000": 0.5}}, "no branch or guarded instruction at '0x10000'"),
    ],
)
def test_a_probability_that_is_none_is_refused_by_name(table, words, named):
    with pytest.raises(InputError, match=named):
        ptxbench.estimate_kernel(PTX, table=table, **LAUNCH, **words)


def test_counts_of_ncu_leave_nothing_for_trips_and_probabilities_to_say(table, tmp_path):
    for words in ({"trips": {0: 5}}, {"probability": {"all": 0.5}}, {"grid": 5}):
        (name,) = words
        with pytest.raises(InputError, match=f"has executed counts: leave out `{name}`"):
            ptxbench.estimate_kernel("k", ncu=tmp_path / "counts.csv", table=table, **words)
    with pytest.raises(InputError, match="steady is said of a measured time: give `time_s`"):
        ptxbench.estimate_kernel(PTX, table=table, **LAUNCH, steady=True)


def test_a_launch_by_dimensions_is_that_of_their_product(table):
    by_dimension = {**LAUNCH, "grid": (66, 2), "block": (16, 16, 1)}
    found, plain = (
        ptxbench.estimate_kernel(PTX, table=table, time_s=1e-3, **one) for one in (by_dimension, LAUNCH)
    )
    assert found.energy_j == pytest.approx(plain.energy_j)
    assert any("2.703e+07 bytes" in note for note in plain.notes)
    # Threads and blocks that differ in y alone take the same addresses.
    assert any("8.448e+05 bytes" in note for note in found.notes)


def test_a_modelled_time_is_noted_and_a_given_one_is_used(table):
    modelled = ptxbench.estimate_kernel(PTX, table=table, **LAUNCH)
    assert any("the time is modelled" in note for note in modelled.notes)
    given = ptxbench.estimate_kernel(PTX, table=table, time_s=2.0, **LAUNCH)
    assert given.time_s == 2.0
    assert not [note for note in given.notes if "modelled" in note]


@pytest.mark.parametrize("name", ["time_s", "clock_mhz", "operands", "temperature_c", "grid", "block"])
@pytest.mark.parametrize("value", [*BAD, "7", None.__class__])
def test_a_number_that_is_none_is_refused_by_name(table, name, value):
    if name == "temperature_c" and value == -1:
        value = -1e9
    with pytest.raises(ptxbench.InputError, match=name):
        ptxbench.estimate_kernel(PTX, table=table, **{**LAUNCH, name: value})


@pytest.mark.parametrize("name", ["time_s", "clock_mhz", "grid", "block"])
def test_zero_is_refused_where_it_means_nothing(table, name):
    with pytest.raises(ptxbench.InputError, match=name):
        ptxbench.estimate_kernel(PTX, table=table, **{**LAUNCH, name: 0})


@pytest.mark.parametrize("count", BAD)
def test_a_trip_count_is_refused_by_its_loop(table, count):
    with pytest.raises(ptxbench.InputError, match="trips of loop 0"):
        ptxbench.estimate_kernel(PTX, table=table, grid=1, block=32, trips={0: count})


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"grid": 1.5}, "grid"),
        ({"block": (32, 64)}, "block"),
        ({"clock_mhz": 2500.0}, "clock_mhz"),
        ({"clock_mhz": 20.0}, "clock_mhz"),
        ({"opt_level": "O2"}, "opt_level"),
        ({"grid": None}, "grid"),
        ({"table": "nowhere"}, "nowhere"),
        ({"operands": "image"}, "operands must be one .* of random, zeros, sparse; not 'image'"),
        ({"integer_data": True, "operands": 0.5}, "operands must be a kind"),
        ({"clock_mhz": 1000, "set_clock_mhz": 1000}, "clock_mhz .* not both"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(table, words, named):
    with pytest.raises(ptxbench.InputError, match=named):
        ptxbench.estimate_kernel(PTX, **{"table": table, **LAUNCH, **words})


def test_a_kind_of_data_lies_where_the_fit_put_it(table):
    energy_j = {
        kind: ptxbench.estimate_kernel(PTX, table=table, time_s=1e-3, operands=kind, **LAUNCH).energy_j
        for kind in ("random", "zeros", "sparse")
    }
    data = ptxbench.estimate_kernel(PTX, table=table, time_s=1e-3, **LAUNCH)
    assert data.energy_j == energy_j["random"] > energy_j["sparse"] > energy_j["zeros"]
    integers = ptxbench.estimate_kernel(
        PTX, table=table, time_s=1e-3, operands="sparse", integer_data=True, **LAUNCH
    )
    # Addresses are taken as random here; integer data toggle less.
    assert integers.energy_j < energy_j["sparse"]


def test_a_table_that_was_not_kept_cannot_estimate():
    with pytest.raises(ptxbench.InputError, match="out="):
        ptxbench.estimate_kernel(PTX, table=Table((), fake.manifest()), **LAUNCH)


CURVE = PowerCurve(80, 0.12, 1000, 1 / 1500)


@pytest.fixture
def clock_samples(tmp_path):
    lines = [f"{mhz},{CURVE.power_w(mhz)}" for mhz in range(345, 1981, 60)]
    (tmp_path / "samples.csv").write_text("\n".join(["clock_mhz,power_w", *lines]) + "\n")
    return tmp_path / "samples.csv"


def test_energy_and_time_are_predicted_at_a_set_clock_by_the_voltage(table, clock_samples):
    words = {**LAUNCH, "time_s": 1.0, "clock_samples": clock_samples}
    full = ptxbench.estimate_kernel(PTX, table=table, **words)
    at = ptxbench.estimate_kernel(PTX, table=table, **words, set_clock_mhz=1200)
    assert at.time_s == pytest.approx(1980 / 1200)
    static_w = 120.0
    ratio = (at.energy_j - static_w * at.time_s) / (full.energy_j - static_w)
    assert ratio == pytest.approx((CURVE.voltage(1200) / CURVE.voltage(1980)) ** 2, rel=0.01)
    assert not at.capped
    # Below the ridge the voltage stays, and only static power costs more.
    low, lower = (
        ptxbench.estimate_kernel(PTX, table=table, **words, set_clock_mhz=mhz) for mhz in (900, 600)
    )
    assert lower.energy_j - low.energy_j == pytest.approx(static_w * (1980 / 600 - 1980 / 900), rel=0.01)


@pytest.mark.parametrize(("opcode", "gamma"), [("HMMA.16816.F32", 2.16), ("DFMA", 2.32), ("FFMA", 2.42)])
def test_at_a_set_clock_a_kernel_follows_the_law_of_its_kind(opcode, gamma, tmp_path):
    counts = tmp_path / "counts.csv"
    counts.write_text(
        '"ID","Kernel Name","sass__inst_executed_per_opcode_with_modifier_all","gpu__time_duration.sum"\n'
        f'"","","","nsecond"\n"0","k","1e9 ({opcode}: 1e9)","1e8"\n'
    )
    words = {"table": ptxbench.load_table("h200"), "ncu": counts, "temperature_c": 45}
    at = ptxbench.estimate_kernel("k", **words, set_clock_mhz=1700)
    said = [note for note in at.notes if "follows the clock by" in note]
    assert f"gamma {gamma:.2g}" in said[0]
    full = ptxbench.estimate_kernel("k", **words, set_clock_mhz=1980)
    dynamic = [sum(p.energy_j for p in one.parts if p.name != "static") for one in (full, at)]
    assert dynamic[1] / dynamic[0] == pytest.approx((1700 / 1980) ** gamma, rel=1e-3)


def test_a_clock_that_nothing_was_measured_at_widens_the_interval_and_says_so(table):
    words = {**LAUNCH, "time_s": 1e-6}
    full = ptxbench.estimate_kernel(PTX, table=table, **words)
    at = ptxbench.estimate_kernel(PTX, table=table, **words, set_clock_mhz=990)
    of_dynamic = [(e.high_j - e.low_j) / (e.energy_j - 120.0 * e.time_s) for e in (full, at)]
    assert of_dynamic[1] > 1.5 * of_dynamic[0]
    assert any("extrapolated" in note for note in at.notes)


def test_a_power_limit_holds_the_clock_down(table, clock_samples):
    words = {**LAUNCH, "time_s": 1e-7, "clock_samples": clock_samples}
    free = ptxbench.estimate_kernel(PTX, table=table, **words)
    limit_w = (free.power_w + 120) / 2
    held = ptxbench.estimate_kernel(PTX, table=table, **words, limit_w=limit_w)
    assert held.capped
    assert held.power_w == pytest.approx(limit_w, rel=1e-3)
    assert held.time_s > free.time_s


def test_a_time_in_which_no_board_could_do_it_is_refused_and_one_too_short_for_its_bytes_is_said():
    words = {"grid": 1056, "block": 256, "table": "h200", "trips": {0: 4096}}
    with pytest.raises(ptxbench.InputError, match=r"time_s is too short: in 1e-06 s .* of 700 W; is it in"):
        ptxbench.estimate_kernel(PTX, **words, time_s=1e-6)
    short, long = (ptxbench.estimate_kernel(PTX, **words, time_s=time_s) for time_s in (1.2e-3, 3e-3))
    said = "its bytes from DRAM take 0.00185 s at least, and its time is 0.0012 s"
    assert any(note.startswith(said) for note in short.notes)
    assert not any("bytes from DRAM take" in note for note in long.notes)


def test_a_modelled_time_below_that_of_any_launch_is_said():
    tiny = ptxbench.estimate_kernel(PTX, table="h200", grid=1, block=32, trips={0: 1})
    assert tiny.time_s < 1e-6
    assert any("took less than 1.18 us: give the measured time (`time_s`)" in note for note in tiny.notes)
    given = ptxbench.estimate_kernel(PTX, table="h200", grid=1, block=32, trips={0: 1}, time_s=2e-6)
    assert not any("less than 1.18 us" in note for note in given.notes)


@pytest.mark.hostile
def test_a_limit_below_what_is_drawn_at_the_lowest_clock_is_refused(table, clock_samples):
    words = {**LAUNCH, "time_s": 1e-7, "clock_samples": clock_samples}
    with pytest.raises(ptxbench.InputError, match=r"limit_w is 7 W, .* even at the lowest clock"):
        ptxbench.estimate_kernel(PTX, table=table, **words, limit_w=7)


def test_samples_that_end_below_the_full_clock_are_refused(table, tmp_path):
    lines = [f"{mhz},{CURVE.power_w(mhz)}" for mhz in range(345, 1500, 60)]
    (tmp_path / "s.csv").write_text("\n".join(["clock_mhz,power_w", *lines]) + "\n")
    with pytest.raises(ptxbench.InputError, match="measure up to it"):
        ptxbench.estimate_kernel(PTX, table=table, **LAUNCH, clock_samples=tmp_path / "s.csv")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"set_clock_mhz": 2500}, "set_clock_mhz"),
        ({"set_clock_mhz": 100}, "set_clock_mhz"),
        ({"set_clock_mhz": 1000, "clock_mhz": 1000}, "not both"),
        ({"memory_ratio": 1.5}, "memory_ratio"),
        ({"limit_w": 0}, "limit_w"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(table, words, named):
    with pytest.raises(ptxbench.InputError, match=named):
        ptxbench.estimate_kernel(PTX, table=table, **LAUNCH, **words)


SCALED = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry NAME(.param .u64 x)
{
    .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %d<4>;
    ld.param.u64 %d0, [x]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4; add.u64 %d2, %d0, %d1;
    ld.global.f32 %f0, [%d2]; add.f32 %f1, %f0, %f0; st.global.f32 [%d2], %f1;
    ret;
}
"""


def cubin_of(name, target):
    return assemble_ptx(SCALED.replace("NAME", name), target, OptLevel.O3).image


def estimated(code, **words):
    return ptxbench.estimate_kernel(code, table="h200", grid=132, block=256, **words)


def test_a_kernel_is_found_in_fat_binaries_programs_and_folders(tmp_path):
    own = estimated(cubin_of("k", "sm_90a"))
    other, older, ptx = (
        cubin_of("other", "sm_90a"),
        cubin_of("k", "sm_80"),
        SCALED.replace("NAME", "k").encode(),
    )
    machine = fatbin(entry(2, 80, older), entry(2, 90, cubin_of("k", "sm_90a")), entry(1, 80, ptx))
    program = HOST + bytes(8) + fatbin(entry(2, 90, other)) + machine
    for code in (machine, fatbin(entry(1, 80, ptx)), ptx):
        assert estimated(code) == own
    with pytest.raises(InputError, match=r"entry must name one of the kernels of .*: other, k"):
        estimated(program)
    assert estimated(program, entry="k") == own
    for name in ("k", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.cubin").write_bytes(cubin_of(name, "sm_90a"))
    assert estimated(tmp_path, entry="k") == own
    (tmp_path / "k" / "0.cubin").write_bytes(older)
    assert estimated(tmp_path, entry="k") == own
    (tmp_path / "k" / "1.cubin").write_bytes(
        assemble_ptx(SCALED.replace("NAME", "k"), "sm_90a", OptLevel.O0).image
    )
    with pytest.raises(InputError, match=r"2 different kernels k; name a file .*/1.cubin, .*/k.cubin$"):
        estimated(tmp_path, entry="k")
    (tmp_path / "k" / "1.cubin").write_bytes(older[:600])
    with pytest.raises(InputError, match=r"/1.cubin: nvdisasm failed"):
        estimated(tmp_path, entry="k")
    with pytest.raises(InputError, match="holds no cubin"):
        estimated(Path(__file__).parent)


def test_ptx_to_debug_is_assembled_as_that_asks_and_machine_code_takes_no_level():
    ptx = SCALED.replace("NAME", "k")
    found = estimated(ptx.replace("sm_80", "sm_80, debug") + ".section .debug_abbrev { .b8 0 }")
    assert found.parts != estimated(ptx).parts
    assert any("assembled at O0" in note for note in found.notes)
    with pytest.raises(InputError, match="`opt_level` is for PTX, and the code holds machine code"):
        estimated(cubin_of("k", "sm_90a"), opt_level="O0")
    with pytest.raises(InputError, match=r"^the code: ptxas failed: .*'nonsense'"):
        estimated(ptx.replace("ret;", "nonsense;"))


def test_a_kernel_of_cuda_is_named_as_it_is_written():
    names = ("_ZN2ns5scaleIfLi32EEEvPT_", "_ZN2ns5scaleIfLi64EEEvPT_")
    head, body = SCALED.split(".visible")
    both = (head + "".join(f".visible{body.replace('NAME', name)}" for name in names)).encode()
    assert estimated(both, entry="ns::scale<float, 64>") == estimated(both, entry=names[1])
    with pytest.raises(InputError, match=f"several are 'scale': {names[0]}, {names[1]}$"):
        estimated(both, entry="scale")


def test_code_of_another_gpu_is_refused_with_what_is_there():
    newer = fatbin(entry(2, 80, cubin_of("k", "sm_80")), entry(2, 120, cubin_of("k", "sm_120")))
    words = r"holds machine code of sm_80, machine code of sm_120, and the table is of NVIDIA H200 \(sm_90a\)"
    with pytest.raises(InputError, match=words):
        estimated(newer)
    with pytest.raises(InputError, match=r"assembled for sm_120, and the table is of NVIDIA H200 \(sm_90a\)"):
        estimated(cubin_of("k", "sm_120"))
    for target in ("sm_120", "sm_80a"):
        ptx = SCALED.replace("NAME", "k").replace("sm_80", target)
        with pytest.raises(InputError, match=f"holds PTX of {target}, and the table is of NVIDIA H200"):
            estimated(ptx)
    with pytest.raises(InputError, match="holds no code of a GPU"):
        estimated(HOST)


def test_ptx_of_a_newer_version_is_lowered_where_it_has_nothing_new():
    ptx = SCALED.replace("NAME", "k")
    found = estimated(ptx.replace("8.0", "99.9"))
    assert found.energy_j == estimated(ptx).energy_j
    assert found.notes[0].startswith("PTX 99.9 is assembled as PTX ")
    with pytest.raises(
        InputError, match=r"is PTX 99.9 and uses what the assembler, .* install a newer ptxas"
    ):
        estimated(ptx.replace("8.0", "99.9").replace("add.f32", "fly.f32"))


def with_lines(ptx):
    """The same kernel as a compiler writes it with -lineinfo: line 3 loads, 4 adds, 5 stores."""
    ptx = ptx.replace(".visible", '.file 1 "/src/scale.cu"\n.visible', 1)
    for number, first in ((3, "ld.param"), (4, "add.f32"), (5, "st.global"), (6, "ret")):
        ptx = ptx.replace(first, f"\n.loc 1 {number} 0\n{first}", 1)
    return ptx


def test_explain_says_where_the_joules_go_by_source_line():
    ptx = SCALED.replace("NAME", "k")
    found = estimated(with_lines(ptx), explain=True)
    lines = {part.name: part.energy_j for part in found.lines}
    assert {"/src/scale.cu:3", "/src/scale.cu:4", "/src/scale.cu:5"} <= set(lines)
    # An addition by itself takes less than a load with its address and its bytes.
    assert lines["/src/scale.cu:4"] < lines["/src/scale.cu:3"]
    beside = sum(part.energy_j for part in found.parts if part.name in ("static", "active chip"))
    assert sum(lines.values()) == pytest.approx(found.energy_j - beside, rel=1e-6)
    assert estimated(ptx).energy_j == found.energy_j
    assert not estimated(with_lines(ptx)).lines
    plain = estimated(ptx, explain=True)
    assert not plain.lines
    assert any("compile with -lineinfo" in note for note in plain.notes)

"""`ptxbench estimate` on a small real run, and the arithmetic of an estimate."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from ptxbench.analysis.static_power import StaticPower
from ptxbench.cli.main import run as main
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import InputError
from ptxbench.experiment.table_options import TableOptions
from ptxbench.model.clocks.law import Demand, PowerLaw
from ptxbench.model.estimate import Conditions, Machine, estimate
from ptxbench.model.inputs import rows_for
from ptxbench.model.opcode_energies import Known, OpcodeEnergies, Rule
from ptxbench.model.terms import (
    FILE,
    UNFITTED,
    AccessEnergy,
    ByteEnergy,
    CountedSpread,
    KindActivity,
    TensorEnergy,
    Terms,
    read_terms,
)
from ptxbench.model.work import Access, Activity, KernelWork, Level
from ptxbench.storage.document import write_beside

RUN = Path(__file__).parents[2] / "results" / "nvidia-h200" / "operands"
KERNELS = Path(__file__).parent / "kernels"
STATIC = StaticPower(120.0, 40.0, 0.5, 0.1, 0.01)
OPCODE_ENERGIES = OpcodeEnergies(
    {
        "FFMA": Known(14.0, 0.1),
        "FADD": Known(11.0, 0.1),
        "IADD3": Known(8.0, 0.1),
        "HMMA.1688.F32": Known(40.0, 1.0),
    },
    {"FFMA": Known(4.0, 0.1), "FADD": Known(4.4, 0.1), "IADD3": Known(4.0, 0.1)},
)
RANDOM = Conditions(Activity(1.0, 1.0), 40.0)


def machine(limit_w=math.nan, **terms):
    return Machine(OPCODE_ENERGIES, Terms(**{**UNFITTED.__dict__, **terms}), STATIC, limit_w)


def work(time_s=1.0, moved=(), **opcodes):
    return KernelWork(
        "k", tuple((op.replace("_", "."), n) for op, n in opcodes.items()), tuple(moved), time_s
    )


def test_joules_are_instructions_bytes_and_static_power():
    made = machine(bytes_pj=(ByteEnergy(Level.DRAM, 100.0, 50.0, 0.1),))
    found = estimate(work(2.0, [(Level.DRAM, 1e11)], FFMA=1e12, IADD3=1e12), made, RANDOM)
    assert found.energy_j == pytest.approx(14 + 8 + 10 + 240)
    assert {part.name: pytest.approx(part.energy_j) for part in found.parts} == {
        "static": 240, "fp32": 14, "DRAM": 10, "integer": 8,
    }  # fmt: skip
    assert found.power_w == pytest.approx(found.energy_j / 2)
    assert found.low_j < found.energy_j < found.high_j
    assert found.uncovered_share == 0


REQUEST = AccessEnergy(Access.L2_REQUEST, 500.0, 0.1)


@pytest.mark.parametrize(
    ("accesses", "requests", "guessed"), [([(Access.L2_REQUEST, 4e9)], 4e9, False), ([], 1e9, True)]
)
def test_accesses_cost_by_their_number_and_whole_lines_are_assumed_where_they_were_not_counted(
    accesses, requests, guessed
):
    launch = replace(work(FFMA=1e12, moved=[(Level.L2, 128e9)]), accesses=tuple(accesses))
    found = [
        estimate(launch, machine(accesses_pj=(REQUEST,)), Conditions(Activity(share, share, share), 40.0))
        for share in (0.0, 1.0)
    ]
    for one in found:
        (part,) = (part for part in one.parts if part.name == "L2 requests")
        assert part.energy_j == pytest.approx(requests * 500e-12)
    assert guessed is any("a whole line of 128 bytes" in note for note in found[0].notes)


def test_a_slower_sm_clock_makes_no_miss_cheaper():
    launch = replace(work(FFMA=1e12), accesses=((Access.L2_REQUEST, 4e9), (Access.L2_MISS, 4e9)))
    terms = (REQUEST, AccessEnergy(Access.L2_MISS, 500.0, 0.1))
    conditions = replace(RANDOM, clock_ratio=0.5)
    found = estimate(launch, machine(gamma=1.0, accesses_pj=terms), conditions)
    parts = {part.name: part.energy_j for part in found.parts}
    assert parts["L2 requests"] == pytest.approx(1.0)
    assert parts["L2 misses"] == pytest.approx(2.0)
    assert found.energy_j == pytest.approx(sum(parts.values()))


def test_a_lower_sm_clock_makes_no_interval_of_bytes_from_dram_narrower():
    made = machine(
        bytes_pj=(ByteEnergy(Level.DRAM, 100.0, 50.0, 0.1),), gamma=1.0, gamma_error=0.3, error=0.2
    )
    made = replace(made, terms=replace(made.terms, lowest_clock_ratio=0.4))
    launch = work(moved=[(Level.DRAM, 1e12)], FFMA=1.0)
    known = replace(RANDOM, activity_range=(Activity(0.5, 1.0, 0.5), RANDOM.activity))
    slow, full = (estimate(launch, made, replace(known, clock_ratio=ratio)) for ratio in (0.5, 1.0))
    assert slow.energy_j == pytest.approx(full.energy_j)
    # 20% of 100 J by the model, 25 J less by the data, 0.1 W by static power.
    assert slow.low_j == pytest.approx(full.low_j) == pytest.approx(220 - math.hypot(39.2, 25, 0.196))
    assert slow.high_j == pytest.approx(full.high_j) == pytest.approx(220 + math.hypot(39.2, 0.196))


def test_bytes_that_are_priced_themselves_are_not_paid_for_once_more_in_a_wide_load():
    loads = {
        **{op: Known(pj, 1.0) for op, pj in [("LDG.E", 50.0), ("LDG.E.128", 110.0), ("STG.E", 230.0)]},
        **{op: Known(pj, 1.0) for op, pj in [("LDS", 15.0), ("LDS.128", 80.0), ("RED.E.ADD", 300.0)]},
        "LDS.64": Known(5.0, 50.0),
    }
    of_l1 = (ByteEnergy(Level.L1, 5.0, 5.0, 0.1),)
    everywhere = (*of_l1, ByteEnergy(Level.SHARED, 5.0, 5.0, 0.1))
    launch = KernelWork("k", (("LDG.E.128", 1e12), ("LDS.128", 1e12), ("RED.E.ADD", 1e12)), (), 1.0)

    def parts_j(bytes_pj):
        gpu = replace(
            machine(bytes_pj=bytes_pj),
            opcode_energies=OpcodeEnergies({**OPCODE_ENERGIES.random, **loads}, {}),
        )
        return {part.name: pytest.approx(part.energy_j) for part in estimate(launch, gpu, RANDOM).parts}

    assert parts_j(of_l1) == {"static": 120.0, "global memory": 110.0, "shared memory": 80.0, "atomic": 300.0}
    # 5 pJ a byte leave 30 pJ of a load from global memory; of one from shared memory less than nothing.
    assert parts_j(everywhere) == {
        "static": 120.0, "global memory": 30.0, "shared memory": 0.0, "atomic": 300.0,
    }  # fmt: skip


def test_a_load_that_was_not_measured_is_priced_as_the_loads_are_and_not_as_any_opcode():
    loads = {"LDG.E": Known(20.0, 1.0), "LDG.E.128": Known(80.0, 1.0)}
    everywhere = tuple(ByteEnergy(level, 5.0, 5.0, 0.1) for level in (Level.L1, Level.SHARED))
    gpu = replace(
        machine(bytes_pj=everywhere), opcode_energies=OpcodeEnergies({**OPCODE_ENERGIES.random, **loads}, {})
    )
    launch = KernelWork("k", (("LDG.E", 1e12), ("LDG.E.CONSTANT", 1e12)), (), 1.0)
    found = estimate(launch, gpu, RANDOM)
    assert {part.name: part.energy_j for part in found.parts}["global memory"] == pytest.approx(0.0)
    # What a measured opcode costs beside its bytes is measured, too.
    assert [(fill.opcode, fill.rule) for fill in found.fills] == [("LDG.E.CONSTANT", Rule.MODIFIERS)]


def test_terms_of_an_older_file_are_read_as_before(tmp_path):
    terms = Terms(**{**UNFITTED.__dict__, "kernels": ("fit",)})
    write_beside(tmp_path / FILE, terms)
    text = json.loads((tmp_path / FILE).read_text())
    del text["accesses_pj"], text["left_out_error"]
    (tmp_path / FILE).write_text(json.dumps(text))
    found = read_terms(tmp_path)
    assert (found.kernels, found.accesses_pj, found.gamma) == (("fit",), (), terms.gamma)
    write_beside(tmp_path / FILE, replace(terms, accesses_pj=(REQUEST,)))
    assert read_terms(tmp_path).accesses_pj == (REQUEST,)


def test_zeros_that_the_run_has_not_measured_name_the_run_that_stands_in():
    bare = replace(machine(), opcode_energies=OpcodeEnergies(OPCODE_ENERGIES.random, {}))
    notes = [
        " ".join(estimate(work(FFMA=1e12), bare, Conditions(Activity(share, share), 40.0)).notes)
        for share in (0.0, 1.0)
    ]
    assert "results/nvidia-h200/patterns (NVIDIA H200)" in notes[0]
    assert "patterns" not in notes[1]


def test_operands_between_zeros_and_random_cost_what_lies_between():
    joules = [
        estimate(work(FFMA=1e12), machine(), Conditions(Activity(share, share), 40.0)).energy_j - 120
        for share in (0.0, 0.5, 1.0)
    ]
    assert joules == [pytest.approx(4), pytest.approx(9), pytest.approx(14)]


def test_a_hotter_chip_leaks_more():
    hot = estimate(work(FFMA=1e12), machine(), Conditions(Activity(), 60.0)).energy_j
    assert hot - estimate(work(FFMA=1e12), machine(), RANDOM).energy_j == pytest.approx(10)


def test_a_static_power_of_unknown_error_is_said_to_be_one():
    once = replace(machine(), static=replace(STATIC, error_w=math.nan))
    said = [any("one sleeping kernel" in n for n in estimate(work(FFMA=1e9), one, RANDOM).notes)
            for one in (once, machine())]  # fmt: skip
    assert said == [True, False]


def test_without_a_slope_a_hotter_chip_is_said_to_be_taken_as_the_run_was():
    flat = replace(machine(), static=replace(STATIC, slope_w_per_c=0.0, slope_error_w_per_c=0.0))
    said = [
        any("does not tell how static power" in note for note in estimate(work(FFMA=1e9), one, there).notes)
        for one in (flat, machine())
        for there in (RANDOM, replace(RANDOM, temperature_c=80.0), Conditions(RANDOM.activity))
    ]
    assert said == [False, True, False, False, False, False]


def test_what_is_not_in_the_table_is_filled_counted_and_widens_the_interval():
    found = estimate(work(FFMA=3e12, FFMA_FTZ=1e12), machine(), RANDOM)
    assert found.uncovered_share == pytest.approx(0.25)
    (fill,) = found.fills
    assert (fill.opcode, fill.rule, fill.source) == ("FFMA.FTZ", Rule.MODIFIERS, "FFMA")
    whole = estimate(work(FFMA=4e12), machine(), RANDOM)
    assert found.energy_j == pytest.approx(whole.energy_j)
    assert found.high_j - found.low_j > 2 * (whole.high_j - whole.low_j)


def test_atomics_of_l2_do_not_stand_in_for_those_in_shared_memory():
    of_l2 = {"ATOMG.E.ADD": Known(300.0, 1.0), "RED.E.ADD": Known(250.0, 1.0)}
    launch = work(ATOMS_ADD=1e12, RED_E_MIN=1e12, ATOMG_E_CAS=1e12)

    def filled(**more):
        gpu = replace(
            machine(),
            opcode_energies=OpcodeEnergies(
                {**OPCODE_ENERGIES.random, **of_l2, **more}, OPCODE_ENERGIES.zeros
            ),
        )
        return estimate(launch, gpu, RANDOM), {f.opcode: f for f in estimate(launch, gpu, RANDOM).fills}

    found, fills = filled()
    assert fills["ATOMS.ADD"].rule is Rule.ALL
    # What stands in for both others is measured: RED.E and ATOMG.E with another operation.
    assert {part.name: pytest.approx(part.energy_j) for part in found.parts} == {
        "static": 120.0, "atomic": 550.0, "atomic in shared memory": (14.0 + 40.0) / 2,
    }  # fmt: skip
    found, fills = filled(**{"ATOMS.CAS": Known(30.0, 1.0)})
    assert fills["ATOMS.ADD"].source == "ATOMS.CAS"
    assert {part.name: part.energy_j for part in found.parts}["atomic in shared memory"] == pytest.approx(
        30.0
    )


def test_operands_of_atomics_in_shared_memory_toggle_as_data_do():
    known = {"ATOMS.ADD": Known(30.0, 1.0)}, {"ATOMS.ADD": Known(20.0, 1.0)}
    gpu = replace(machine(), opcode_energies=OpcodeEnergies(*known))
    joules = [
        estimate(work(ATOMS_ADD=1e12), gpu, Conditions(activity, 40.0)).energy_j - 120
        for activity in (Activity(data=0.0, index=1.0), Activity(data=1.0, index=0.0))
    ]
    assert joules == pytest.approx([20.0, 30.0])


def test_what_a_warp_executes_once_is_not_charged_like_work_of_32_threads():
    branch = estimate(work(BRA=1e12), machine(), RANDOM)
    unknown = estimate(work(NEVERSEEN=1e12), machine(), RANDOM)
    assert branch.energy_j - 120 == pytest.approx((unknown.energy_j - 120) / 8)
    assert branch.uncovered_share == unknown.uncovered_share == 1


def test_a_tensor_opcode_of_another_shape_costs_by_its_multiply_adds():
    found = estimate(work(HMMA_16816_F32=1e12), machine(), RANDOM)
    assert found.fills[0].rule is Rule.SCALED
    assert found.energy_j - 120 == pytest.approx(80)
    fitted = machine(tensor=(TensorEnergy("HMMA.F32", 1.0, 0.2, 0.1),), kernels=("a",))
    # 16 x 8 x 16 multiply-adds of 32 threads.
    assert estimate(work(HMMA_16816_F32=1e12), fitted, RANDOM).energy_j - 120 == pytest.approx(64)


def test_a_kernel_over_the_limit_settles_at_the_limit_and_says_so():
    found = estimate(work(1.0, FFMA=1e14), machine(limit_w=700.0, gamma=1.0), RANDOM)
    assert found.capped
    assert found.power_w == pytest.approx(700)
    # E f / (t / f) = 580 W with E = 1400 J and t = 1 s: f^2 = 580 / 1400.
    assert found.clock_ratio == pytest.approx(math.sqrt(580 / 1400))
    assert found.time_s == pytest.approx(1 / found.clock_ratio)
    assert "power limit of 700 W" in found.notes[0]


def test_a_steady_time_is_kept_under_the_limit():
    steady = Conditions(Activity(), 40.0, steady_time=True)
    found = estimate(work(1.0, FFMA=1e14), machine(limit_w=700.0, gamma=1.0), steady)
    assert (found.time_s, found.energy_j) == (1.0, pytest.approx(700))


def test_dram_costs_the_same_at_any_clock_and_the_rest_less():
    made = machine(gamma=2.0, bytes_pj=(ByteEnergy(Level.DRAM, 100.0, 50.0, 0.1),))
    half = Conditions(Activity(), 40.0, clock_ratio=0.5)
    found = estimate(work(1.0, [(Level.DRAM, 1e12)], FFMA=1e13), made, half)
    assert found.energy_j == pytest.approx(140 / 4 + 100 + 120)
    assert not found.capped


@pytest.mark.parametrize("follows_clock", [True, False])
def test_the_settled_clock_is_where_the_power_meets_the_limit(follows_clock):
    demand = Demand(900.0, 100.0, 120.0, 1.0, follows_clock, PowerLaw(1.7, 0.0, 1.0))
    ratio = demand.ratio_under(700.0)
    assert 0.1 < ratio < 1
    assert demand.power_at(ratio) == pytest.approx(700)
    assert demand.ratio_under(1200.0) == 1.0


def test_without_a_time_there_is_no_estimate():
    with pytest.raises(InputError, match="`time_s`"):
        estimate(work(math.nan, FFMA=1), machine(), RANDOM)


# ---- the command ----


def test_a_time_by_counts_is_no_shorter_than_the_bytes_from_dram_take(tmp_path, capsys):
    """Also by a table that fitted no rate to kernels: the H200 reads 4.8 TB/s at most."""
    metrics = "sass__inst_executed_per_opcode_with_modifier_all", "dram__bytes.sum"
    rows = [
        ("ID", "Kernel Name", "Grid Size", "Block Size", *metrics),
        ("", "", "", "", "inst", "byte"),
        ("0", "copy", "(1056, 1, 1)", "(256, 1, 1)", "8,448 (LDG.E: 8,448)", "4,800,000,000"),
    ]
    counts = tmp_path / "counts.csv"
    counts.write_text("".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows))
    assert called(capsys, "copy", "--ncu", counts, "--json")[0] == 0
    _, out, _ = called(capsys, "copy", "--ncu", counts, "--json")
    assert json.loads(out)["time_s"] == pytest.approx(1e-3, rel=0.05)


@pytest.fixture(scope="module")
def cubins(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cubins")
    text = (KERNELS / "elementwise.ptx").read_text()
    for target in ("sm_90a", "sm_80"):
        path = folder / f"{target}.cubin"
        path.write_bytes(assemble_ptx(text.replace("sm_90a", target), target, OptLevel.O3).image)
    return folder


def called(capsys, *arguments):
    code = main(["estimate", *map(str, arguments), "--table", str(RUN)])
    out, err = capsys.readouterr()
    return code, out, err


SHAPE = ("--grid", "132", "--block", "256")


@pytest.mark.parametrize("suffix", ["ptx", "cubin"])
def test_ptx_and_cubin_give_the_same_json(cubins, capsys, suffix):
    path = KERNELS / "elementwise.ptx" if suffix == "ptx" else cubins / "sm_90a.cubin"
    code, out, _ = called(capsys, path, *SHAPE, "--trips", "0=100000", "--time-s", "0.01", "--json")
    document = json.loads(out)
    assert code == 0
    keys = ("energy_j", "low_j", "high_j", "power_w", "time_s", "parts", "uncovered_share")
    assert all(key in document for key in keys)
    assert document["time_s"] == 0.01
    # 132 x 256 threads and 100,000 passes of one FFMA at some 14 pJ, among others.
    parts = {part["name"]: part["energy_j"] for part in document["parts"]}
    assert parts["fp32"] == pytest.approx(132 * 256 * 1e5 * 14.02e-12, rel=0.02)
    assert 0 < document["uncovered_share"] < 1


def test_coverage_is_printed_first_with_what_to_measure(tmp_path, capsys):
    counts = tmp_path / "counts of it.csv"
    counts.write_text(COUNTS)
    assert main(["estimate", "kernel", "--ncu", str(counts), "--table", "h200"]) == 0
    _, covered, lacking, measure, energy, *_ = capsys.readouterr().out.splitlines()
    assert covered.startswith(
        "rows of their own: 75.0% of the executed instructions; told with others: 15.0%"
    )
    assert lacking.startswith(
        "without a row, most executed: IMAD.IADD (15.0%, by add.u16), VIADDMNMX (10.0%, which"
    )
    assert measure == f"measure them on your GPU with: ptxbench table --for '{counts}'"
    assert " J (95%: " in energy


def test_two_kernels_stand_beside_each_other_part_by_part(tmp_path, capsys):
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text(COUNTS)
    two.write_text(COUNTS.replace("FFMA: 15000", "FFMA: 5000"))
    words = ["estimate", "kernel", "--ncu", str(one), "--table", "h200"]
    assert main([*words, "--against", str(two)]) == 0
    head, a, b, _, first, *rest = capsys.readouterr().out.splitlines()
    assert head == "A: kernel(), B: kernel(), on NVIDIA H200"
    assert (a[:3], b[:3]) == ("A: ", "B: ")
    name, a_j, b_j, difference_j, _ = first.split()
    assert name == "fp32"
    assert float(b_j) == pytest.approx(float(a_j) / 3, rel=0.01)
    assert float(difference_j) == pytest.approx(float(b_j) - float(a_j), rel=0.01)
    assert any(line.startswith("all ") for line in rest)
    assert main([*words, "--against", str(two), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["against"]["energy_j"] < document["energy_j"]
    # The same CSV may hold the other one.
    assert main([*words, "--against", "kernel"]) == 0
    assert main([*words, "--against", "nothing"]) == 2


def test_the_rows_that_a_kernel_needs_are_found_by_its_counts(tmp_path):
    counts = tmp_path / "counts.csv"
    counts.write_text(COUNTS)
    assert rows_for(counts) == ("fma.rn.f32", "add.u16")
    options = TableOptions(counts=counts).wanted()
    assert (options.instructions, options.opt_levels) == (("fma.rn.f32", "add.u16"), ("O3",))
    counts.write_text(COUNTS.replace("FFMA", "XFMA").replace("IMAD.IADD", "XADD"))
    with pytest.raises(InputError, match="no instruction of the catalogue becomes"):
        rows_for(counts)


def test_a_time_that_is_not_given_is_modelled_and_said_to_be(capsys):
    code, out, _ = called(capsys, KERNELS / "gemm.ptx", *SHAPE, "--trips", "0x220=100000")
    assert code == 0
    assert "the time is modelled" in out
    assert "no model.json" in out


COUNTS = (
    '"ID","Kernel Name","sass__inst_executed_per_opcode_with_modifier_all","gpu__time_duration.sum"\n'
    '"","","inst","ns"\n"0","kernel()","20000 (FFMA: 15000; IMAD.IADD: 3000; VIADDMNMX: 2000; BRA: 1)",'
    '"1000"\n'
)
CSV = (
    '"ID","Kernel Name","CC","{opcodes}","gpu__time_duration.sum"\n"","","","inst","ns"\n'
    '"0","gemm(float*)","{cc}","1,000,000,000 (FFMA: 1,000,000,000)","1000000"\n'
)


def test_counts_of_ncu_are_priced(tmp_path, capsys):
    path = tmp_path / "c.csv"
    path.write_text(CSV.format(cc="9.0", opcodes="sass__inst_executed_per_opcode_with_modifier_all"))
    code, out, _ = called(capsys, "gemm", "--ncu", path, "--json")
    parts = {part["name"]: part["energy_j"] for part in json.loads(out)["parts"]}
    assert code == 0
    assert parts["fp32"] > parts["static"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((KERNELS / "elementwise.ptx", *SHAPE), "the loop at 0xe0 (--trips 0=N)"),
        ((KERNELS / "elementwise.ptx", *SHAPE, "--trips", "0"), "must be LOOP=N"),
        ((KERNELS / "elementwise.ptx",), "--grid BLOCKS --block THREADS"),
        ((KERNELS / "no.ptx", *SHAPE), "no.ptx"),
        ((__file__, *SHAPE), "is neither PTX with an entry nor a cubin"),
        ((KERNELS / "elementwise.ptx", *SHAPE, "--entry", "other"), "none is 'other': kernel"),
        (("{cubins}/sm_80.cubin", *SHAPE), "is assembled for sm_80, and the table is of NVIDIA H200"),
        (("other", "--ncu", "{csv}/9.0.csv"), "holds no kernel 'other', only gemm(float*)"),
        (("gemm", "--ncu", "{csv}/8.0.csv"), "compute capability 8.0, and the table is of NVIDIA H200"),
        (("gemm", "--ncu", "{csv}/old.csv"), "has no executed opcodes"),
        (("gemm", "--ncu", "{csv}/none.csv"), "none.csv"),
    ],
)
def test_bad_input_is_one_line_that_names_it(arguments, words, cubins, tmp_path, capsys):
    opcodes = "sass__inst_executed_per_opcode"
    for name, cc, metric in (
        ("9.0", "9.0", opcodes),
        ("8.0", "8.0", opcodes),
        ("old", "9.0", "inst_executed"),
    ):
        (tmp_path / f"{name}.csv").write_text(CSV.format(cc=cc, opcodes=metric))
    filled = [str(a).replace("{cubins}", str(cubins)).replace("{csv}", str(tmp_path)) for a in arguments]
    code, out, err = called(capsys, *filled)
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert words in err


def test_terms_beside_the_run_are_used_and_a_broken_file_is_named(tmp_path, capsys):
    copy = tmp_path / "run"
    copy.mkdir()
    for entry in RUN.iterdir():
        (copy / entry.name).symlink_to(entry)
    write_beside(copy / FILE, Terms(**{**UNFITTED.__dict__, "active_w": 30.0, "kernels": ("a kernel",)}))
    arguments = [str(KERNELS / "gemm.ptx"), *SHAPE, "--trips", "0=1000", "--table", str(copy)]
    assert main(["estimate", *arguments]) == 0
    out = capsys.readouterr().out
    assert "active chip" in out
    assert "no model.json" not in out
    (copy / FILE).write_text('{"gamma": "much"}')
    assert main(["estimate", *arguments]) == 2
    assert FILE in capsys.readouterr().err


def test_below_the_clocks_that_were_measured_the_power_law_is_said_to_be_extrapolated():
    seen = machine(gamma=1.5, gamma_error=0.0, lowest_clock_ratio=0.7)

    def at(ratio):
        return estimate(work(FFMA=1e12), seen, replace(RANDOM, clock_ratio=ratio))

    assert not [note for note in at(0.75).notes if "extrapolated" in note]
    below = at(0.4)
    assert [note for note in below.notes if "40%" in note and "70%" in note and "extrapolated" in note]
    # A voltage that stays from 70% on is within the interval.
    assert below.high_j >= 120 + 14 * 0.7**1.5
    assert at(0.75).high_j - at(0.75).energy_j < 0.3 * (below.high_j - below.energy_j)


def test_without_a_throttled_row_any_lower_clock_is_extrapolated():
    found = estimate(work(FFMA=1e12), machine(), replace(RANDOM, clock_ratio=0.9))
    assert [note for note in found.notes if "extrapolated" in note]


def test_lanes_that_take_no_part_cost_what_a_warp_costs_whatever_its_lanes_do():
    lanes = OpcodeEnergies(OPCODE_ENERGIES.random, OPCODE_ENERGIES.zeros, warp_shares={"FFMA": 0.25})
    made = replace(machine(), opcode_energies=lanes)
    half = replace(work(1.0, FFMA=1e12), idle=(("FFMA", 1e12),))
    assert estimate(half, made, RANDOM).energy_j == pytest.approx(120 + 14 * 1.25)
    # An opcode that no row of fewer lanes measures has the median of its class.
    adds = replace(work(1.0, FADD=1e12), idle=(("FADD", 1e12),))
    assert estimate(adds, made, RANDOM).energy_j == pytest.approx(120 + 11 * 1.25)
    assert estimate(half, machine(), RANDOM).energy_j == pytest.approx(120 + 14)


def test_coverage_says_what_has_a_row_of_its_own_and_what_would_help_most():
    rules = {"FFMA": Rule.ROW, "FADD": Rule.TOGETHER}
    energies = OpcodeEnergies(OPCODE_ENERGIES.random, {}, rules=rules, own_rows=frozenset({"FFMA", "LDG.E"}))
    made = replace(machine(), opcode_energies=energies)
    found = estimate(work(FFMA=4e12, LDG_E=1e12, FADD=2e12, IADD3=1e12, FMUL=2e12), made, RANDOM).coverage
    assert found.own_row == pytest.approx(0.5)
    assert found.together == pytest.approx(0.3)
    assert found.stand_in == pytest.approx(0.2)
    assert found.lacking == (("FADD", 0.2), ("FMUL", 0.2), ("IADD3", 0.1))


def test_terms_of_kernels_left_out_set_the_interval():
    spreads = (CountedSpread(0.6, 1.5, 41, 20, False), CountedSpread(0.1, 9.0, 40, 14, True))
    made = machine(counted_spreads=spreads)
    found = estimate(work(1.0, FFMA=1e13), made, RANDOM)
    assert found.energy_j == pytest.approx(140 + 120)
    assert found.low_j == pytest.approx(260 - 0.4 * 140, rel=0.02)
    assert found.high_j == pytest.approx(260 + 0.5 * 140, rel=0.02)


@pytest.mark.parametrize(("time_s", "low", "high"), [(1.0, 0.3, 3.0), (0.1, 0.9, 1.1)])
def test_kernels_that_draw_mostly_static_power_have_the_interval_of_such_kernels(time_s, low, high):
    spreads = (
        CountedSpread(0.1, 9.0, 40, 14, True),
        CountedSpread(0.3, 3.0, 11, 5, False, False),
        CountedSpread(0.9, 1.1, 30, 12, False, True),
    )
    # 120 J of static energy in a second beside 140 J of dynamic energy.
    found = estimate(work(time_s, FFMA=1e13), machine(counted_spreads=spreads), RANDOM)
    assert found.low_j == pytest.approx(found.energy_j - (1 - low) * 140, rel=0.02)
    assert found.high_j == pytest.approx(found.energy_j + (high - 1) * 140, rel=0.02)


def test_what_a_kind_of_data_leaves_open_widens_the_interval():
    terms = machine(kinds=(KindActivity("text", 0.5, 0.1),)).terms
    at = Conditions(terms.activity_on("text"), 40.0)
    plain = estimate(work(1.0, FFMA=1e13), machine(), at)
    wide = estimate(work(1.0, FFMA=1e13), machine(), replace(at, activity_range=terms.activity_range("text")))
    assert wide.energy_j == plain.energy_j
    # 10 pJ between zeros and random numbers, 0.196 of them up and down.
    assert wide.high_j - wide.energy_j == pytest.approx(19.6, rel=0.02)
    assert wide.energy_j - wide.low_j == pytest.approx(19.6, rel=0.02)
    assert terms.activity_range("random") == (terms.random, terms.random)


def test_zeros_that_integers_compute_may_be_zeros_there_too():
    terms = replace(UNFITTED, zeros=Activity(0.1, 0.6, 0.0))
    least, most = terms.activity_range("zeros", integer_data=True)
    assert (least.index, most.index) == (0.1, 0.6)


def test_another_kind_of_tensor_core_costs_by_the_bits_of_its_operands():
    made = machine(tensor=(TensorEnergy("HMMA.F32", 2.0, 0.5, 0.1),))
    same, wider = (
        estimate(work(1.0, **{opcode: 1e9}), made, RANDOM).parts
        for opcode in ("HMMA_16816_F32_BF16", "HMMA_16816_F32_TF32")
    )
    joules = [next(p.energy_j for p in parts if p.name == "tensor") for parts in (same, wider)]
    assert joules == pytest.approx([2.0 * 64 * 1e-3, 4.0 * 64 * 1e-3])


def test_each_part_has_its_error_and_together_they_are_the_estimate():
    made = machine(bytes_pj=(ByteEnergy(Level.DRAM, 100.0, 50.0, 0.1),))
    found = estimate(work(2.0, [(Level.DRAM, 1e11)], FFMA=1e12), made, RANDOM)
    errors = {part.name: part.error_j for part in found.parts}
    assert errors["DRAM"] == pytest.approx(1.0)
    assert errors["fp32"] == pytest.approx(0.1)
    assert errors["static"] > 0


def test_explain_shows_what_models_that_know_less_say(capsys):
    words = [str(KERNELS / "gemm.ptx"), "--table", "h200", "--grid", "132", "--block", "256"]
    words += ["--trips", "0x220=100"]
    assert main(["estimate", *words, "--explain", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [answer["name"] for answer in found["answers"]]
    assert names[0] == "the table"
    assert any(name.startswith("every opcode at") for name in names)
    assert found["answers"][0]["energy_j"] == found["energy_j"]
    assert all(answer["energy_j"] > 0 and len(answer["errors"]) == 2 for answer in found["answers"])
    assert main(["estimate", *words, "--explain"]) == 0
    assert "mean power times time" in capsys.readouterr().out
    assert main(["estimate", *words[:1], "--table", str(RUN), *words[3:], "--explain"]) == 2
    assert "baselines.json" in capsys.readouterr().err

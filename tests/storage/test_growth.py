"""What a contributor adds to a copy of ptxbench: how many files that takes, and older runs are still read."""

import csv
import json
import re

import pytest
from fakes.scratch_copy import ROOT, printed_by, scratch_copy

OLDER = ROOT / "results" / "nvidia-h200" / "levels"
# By file, what is added behind which text; a file that is not there is made.
COLUMN = {
    "storage/schema.py": {"    mtsm_ci95_pj: float = math.nan\n": "    humidity_pct: float = math.nan\n"}
}
AXIS = {
    "core/condition.py": {
        "    lanes: int = WARP\n": '    phase: str = "a"\n',
        "*lanes_key(self.lanes)": ', *([] if self.phase == "a" else [self.phase])',
        "    lanes: tuple[int, ...] = ()\n": "    phases: tuple[str, ...] = ()\n",
        "Pattern(pattern), lanes=lanes": ", phase=phase",
        "for opt_level, protocol, pattern, lanes": ", phase",
        "self.opt_levels, self.protocols, self.patterns, self.lanes": ", self.phases",
    },
    "storage/schema.py": {
        "    compared_error_j: float = math.nan\n": '    phase: str = "a"\n',
        "    mtsm_ci95_pj: float = math.nan\n": '    phase: str = "a"\n',
        "self.operands, *lanes_key(self.lanes)": ', *([] if self.phase == "a" else [self.phase])',
        "    operands: str\n    lanes: int\n": "    phase: str\n",
        '        "lanes": condition.lanes,\n': '        "phase": condition.phase,\n',
    },
    "storage/manifest.py": {
        "    lanes: tuple[int, ...] = (WARP,)\n": '    phases: tuple[str, ...] = ("a",)\n'
    },
    "experiment/table_options.py": {
        "    lanes: Lanes = ()\n": '    phases: Annotated[tuple[str, ...], Opt(help="Its.")] = ()\n',
        "            lanes=self.lanes,\n": "            phases=self.phases,\n",
    },
}
ROW = '  { name = "fma.rm.ftz.f32", type = "f32", O0 = { "FFMA.FTZ.RM" = 1 }, O3 = { "FFMA.FTZ.RM" = 1 } },\n'
INSTRUCTION = {"catalogue/data/float.toml": {"rows = [\n": ROW}}
FORMAT = {"report/formats/names.py": "def render(reports, width):\n    return 'by its own format'\n"}
COMMAND = {
    "cli/main.py": {'    "Look up": {\n': '        "hello": "Say hello.",\n'},
    "cli/hello.py": """from ptxbench.cli.command import command_of
from ptxbench.cli.options import JsonOptions


@command_of(JsonOptions, "hello")
def command(options):
    print("hello")
""",
}
PROFILE = """
base = "rtx5090"
title = "{title}"
[chip]
target = "{target}"
sm_count = {sms}
"""
PROFILES, GENERATION = "devices/simulated/profiles", "catalogue/architectures/blackwell.toml"
PRODUCT = {
    f"{PROFILES}/rtx5080.toml": PROFILE.format(title="NVIDIA GeForce RTX 5080", target="sm_120a", sms=84)
}
SM = (ROOT / "ptxbench" / GENERATION).read_text().partition("\n[sm.120]\n")[2]
CAPABILITY = {
    f"{PROFILES}/gb10.toml": PROFILE.format(title="NVIDIA GB10", target="sm_121a", sms=48),
    "core/target.py": {'    Target("sm_120a", 120, "8.7"),\n': '    Target("sm_121a", 121, "8.8"),\n'},
    GENERATION: {SM: f"\n[sm.121]\n{SM}"},
}
EMPTY = ".version 8.8\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    path = scratch_copy(tmp_path_factory.mktemp("grown"))
    for addition in (COLUMN, AXIS, INSTRUCTION, FORMAT, COMMAND, PRODUCT, CAPABILITY):
        for name, added in addition.items():
            file = path / "ptxbench" / name
            if isinstance(added, str):
                assert not file.exists()
                file.write_text(added)
                continue
            text = file.read_text()
            for place, more in added.items():
                assert place in text, f"{name} has no {place!r}"
                text = text.replace(place, place + more, 1)
            file.write_text(text)
    return path


@pytest.fixture(scope="module")
def said(grown):
    """What commands of the copy print, all of them in one process."""
    for target in ("sm_120a", "sm_121a"):
        (grown / f"{target}.ptx").write_text(EMPTY.format(target=target))
    few = "--opt-level O3 --max-repeats 2 --seed 1 --out"
    return printed_by(
        grown,
        f"table fma.rn.f32 --gpu simulated --phases=a --phases=b {few} run",
        f"report run {OLDER} --format csv --out rows.csv",
        f"report {OLDER} --format names",
        "hello",
        "show fma.rm.ftz.f32 --opt-level O3 --part sass",
        f"table fma.rn.f32 --gpu simulated:rtx5080 {few} rtx5080",
        f"table fma.rn.f32 --gpu simulated:gb10 {few} gb10",
        "report rtx5080 gb10 --format json --out products.json",
        "occupancy sm_120a.ptx --target sm_120a --block 1024 --json",
        "occupancy sm_121a.ptx --target sm_121a --block 1024 --json",
    )


def test_a_copy_with_all_of_them_measures_and_reads_older_runs(grown, said):
    assert "by its own format\nhello\n" in said
    rows = list(csv.DictReader((grown / "rows.csv").read_text().splitlines()))
    seen = [(row["run"] == "run", row["phase"], row["humidity_pct"]) for row in rows]
    assert seen[:2] == [(True, "a", ""), (True, "b", "")]
    assert set(seen[2:]) == {(False, "a", "")}
    assert [row["status"] for row in rows[:2]] == ["ok", "ok"]


def test_a_new_product_and_a_new_target_have_a_table_and_an_occupancy(grown, said):
    runs = json.loads((grown / "products.json").read_text())["runs"]
    titles = ("NVIDIA GeForce RTX 5080", "NVIDIA GB10")
    for run, title in zip(runs, titles, strict=True):
        assert title in run["gpu"]
        (row,) = run["rows"]
        # FFMA of its base, at its scale.
        assert row["dynamic_pj"] == pytest.approx(12.4 * 0.55, rel=0.02)
        assert row["status"] == "ok"
    found = [json.loads(one) for one in re.findall(r"^\{.*?^\}$", said, re.MULTILINE | re.DOTALL)]
    assert [(one["target"], one["sizes"][0]["limited_by"]) for one in found] == [
        ("sm_120a", ["warps"]),
        ("sm_121a", ["warps"]),
    ]


@pytest.mark.parametrize(
    ("name", "addition"),
    [
        ("a column", COLUMN),
        ("an axis", AXIS),
        ("an instruction", INSTRUCTION),
        ("a report format", FORMAT),
        ("a command", COMMAND),
        ("a GPU of a new target", CAPABILITY),
    ],
)
def test_an_addition_takes_as_many_files_as_the_guide_for_contributors_says(name, addition):
    (count,) = re.findall(rf"^\| {name} \| (\d)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert len(addition) == int(count)

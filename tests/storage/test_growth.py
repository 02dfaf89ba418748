"""What a contributor adds to a copy of ptxbench: how many files that takes, and older runs are still read."""

import csv
import io
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


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    path = scratch_copy(tmp_path_factory.mktemp("grown"))
    for addition in (COLUMN, AXIS, INSTRUCTION, FORMAT, COMMAND):
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


def test_a_copy_with_all_of_them_measures_and_reads_older_runs(grown):
    said = printed_by(
        grown,
        "table fma.rn.f32 --gpu simulated --opt-level O3 --phases=a --phases=b --max-repeats 2 --out run",
        f"report {OLDER} --format names",
        "hello",
        "show fma.rm.ftz.f32 --opt-level O3 --part sass",
        f"report run {OLDER} --format csv",
    )
    assert "by its own format\nhello\n" in said
    rows = list(csv.DictReader(io.StringIO(said[said.index("run,gpu,") :])))
    seen = [(row["run"] == "run", row["phase"], row["humidity_pct"]) for row in rows]
    assert seen[:2] == [(True, "a", ""), (True, "b", "")]
    assert {row["status"] for row in rows} >= {"ok"}
    assert set(seen[2:]) == {(False, "a", "")}


@pytest.mark.parametrize(
    ("name", "addition"),
    [
        ("a column", COLUMN),
        ("an axis", AXIS),
        ("an instruction", INSTRUCTION),
        ("a report format", FORMAT),
        ("a command", COMMAND),
    ],
)
def test_an_addition_takes_as_many_files_as_the_guide_for_contributors_says(name, addition):
    (said,) = re.findall(rf"^\| {name} \| (\d)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert len(addition) == int(said)

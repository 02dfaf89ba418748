"""The tables of rooflines, on three pages, are those of the kept runs."""

from fakes.script import load_script


def test_tables_of_rooflines_are_those_of_the_kept_runs():
    module = load_script("runners/refresh_roofline.py")
    kept = module.kept_rooflines()
    for name, (path, block) in module.PAGES.items():
        page = (module.ROOT / path).read_text(encoding="utf-8")
        there = page.split(f"<!-- {name}:begin -->\n")[1].split(f"<!-- {name}:end -->")[0]
        assert there == block(kept), "run runners/refresh_roofline.py"

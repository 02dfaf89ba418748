"""The slips that `make mutants` makes, and that it finds those that no test notices."""

import ast
import json
import sys
from pathlib import Path

import pytest

RUNNERS = Path(__file__).parents[2] / "runners"


@pytest.fixture
def mutants(monkeypatch):
    monkeypatch.syspath_prepend(str(RUNNERS))
    import mutants

    yield mutants
    sys.modules.pop("mutants")


SOURCE = '''
def mean(values: list[float | int], most: int = 3) -> float:
    """Not 1 + 1."""
    if not values or len(values) > most:
        raise ValueError(f"at most {most + 1}")
    values.sort()
    zip(values, values, strict=True)
    return min(values) / -2.0 if True else values[0]
'''


def test_each_kind_of_slip_is_made_once_at_its_place(mutants):
    found = mutants.mutants_of("m.py", SOURCE.encode())
    made = {one.shown(SOURCE.encode()).removeprefix("m.py:") for one in found}
    assert made == {
        "2: constant: 3  ->  4",
        "4: and/or: not values or len(values) > most  ->  (not values and len(values) > most)",
        "4: dropped not: not values  ->  (values)",
        "4: comparison: len(values) > most  ->  (len(values) >= most)",
        "6: dropped statement: values.sort()  ->  pass",
        "7: dropped statement: zip(values, values, strict=True)  ->  pass",
        "8: branches swapped: min(values) / -2.0 if True else values[0]"
        "  ->  (values[0] if True else min(values) / -2.0)",
        "8: arithmetic: min(values) / -2.0  ->  (min(values) * -2.0)",
        "8: min/max: min  ->  max",
        "8: dropped minus: -2.0  ->  (2.0)",
        "8: constant: 2.0  ->  3.0",
        "8: constant: True  ->  False",
        "8: constant: 0  ->  1",
    }
    for one in found:
        changed = one.applied_to(SOURCE.encode())
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))


def test_every_slip_of_every_module_is_python(mutants):
    for modules in mutants.modules_of(mutants.MODULES).values():
        for module in modules[::23]:
            source = (mutants.ROOT / module).read_bytes()
            for one in mutants.mutants_of(module, source)[::11]:
                compile(one.applied_to(source), module, "exec", ast.PyCF_ONLY_AST)


def test_a_module_that_is_not_tested_so_is_refused(mutants):
    with pytest.raises(SystemExit, match="ptxbench/cli is no module or folder below"):
        mutants.modules_of(["ptxbench/cli"])


@pytest.mark.parametrize(("number", "survivors"), [(2, []), (0, ["constant"])])
def test_a_slip_that_no_test_notices_survives(mutants, tmp_path, number, survivors):
    module = tmp_path / "twice.py"
    module.write_text("def twice(n):\n    return 2 * n\n")
    (tmp_path / "test_twice.py").write_text(
        f"from twice import twice\n\ndef test():\n    assert twice({number}) == {2 * number}\n"
    )
    source, copy = module.read_bytes(), mutants.Copy(tmp_path, tmp_path / "cache")
    made = mutants.mutants_of(module.name, source)
    # Twice and thrice nothing are alike; half of it is refused, as it is divided by nothing.
    assert {one.kind for one in made} == {"constant", "arithmetic"}
    assert [one.kind for one in made if copy.survives(one, {("test_twice.py",): 60.0})] == survivors
    assert copy.survives(made[0], {})
    assert copy.run(["test_twice.py"]) == 0
    assert list(json.loads(copy.took.read_text())) == ["test_twice.py::test"]
    assert module.read_bytes() == source

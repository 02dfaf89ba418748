import json
import math
from dataclasses import is_dataclass, replace
from typing import get_args, get_origin

import pytest
from fakes import run as fake

import ptxbench
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.storage import codec
from ptxbench.storage.codec import encode
from ptxbench.storage.document import SCHEMA
from ptxbench.storage.manifest import (
    TableManifest,
    read_run_manifest,
    require_equal,
    require_same,
    with_part,
    write_manifest,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "manifest.json"


def changed(path, *keys, **change):
    """Write the example manifest with one value changed or, without a change, removed."""
    write_manifest(path, fake.manifest())
    plain = json.loads(path.read_text())
    inner = plain
    for key in keys[:-1]:
        inner = inner[key]
    if change:
        inner[keys[-1]] = change["to"]
    else:
        del inner[keys[-1]]
    path.write_text(json.dumps(plain))


def message(path):
    with pytest.raises(InputError) as error:
        read_run_manifest(path.parent)
    text = str(error.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


def test_round_trip(path):
    old = with_part(fake.manifest(), sessions=(replace(fake.SESSION, end=fake.END),))
    write_manifest(path, old)
    new = read_run_manifest(path.parent)
    assert repr(new) == repr(old)  # types too, and NaN equal to NaN
    assert math.isnan(new.gpu.max_sm_clock_mhz)
    assert new.gpu.kind is GpuKind.REAL


def test_new_manifest_names_version_host_and_start():
    manifest = fake.manifest()
    assert manifest.schema == SCHEMA
    assert manifest.ptxbench_version == ptxbench.__version__
    assert manifest.created == fake.START
    assert manifest.part.sessions == (fake.SESSION,)
    assert len(manifest.host.name_hash) == 12
    assert manifest.host.python.startswith("3.")


def test_file_is_plain_json_for_other_readers(path):
    write_manifest(path, fake.manifest())
    plain = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert plain["gpus"][0]["kind"] == "real"
    assert plain["created"] == "2026-11-21T03:13:07.250000+00:00"
    assert plain["part"]["arguments"]["opt_levels"] == ["O0", "O3"]


@pytest.mark.parametrize("version", ["3.0", "10.2", 3])
def test_a_newer_major_schema_is_refused_before_all_else(path, version):
    changed(path, "schema", to=version)
    plain = json.loads(path.read_text())
    del plain["gpus"]
    path.write_text(json.dumps(plain))
    assert message(path) == (
        f"schema is {version}, and this ptxbench reads up to 2.x: read it with a newer ptxbench"
    )


@pytest.mark.parametrize("version", [0, True, None, "two", "2", "2.0.1", "-1.0"])
def test_what_is_no_schema_is_named(path, version):
    changed(path, "schema", to=version)
    assert message(path) == f"schema must be the schema of the file, such as '{SCHEMA}', not {version!r}"


def all_keys(plain, keys=()):
    for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain):
        if isinstance(key, str):
            yield (*keys, key)
        if isinstance(value, dict | list):
            yield from all_keys(value, (*keys, key))


def fields_by_place(kind, keys=()):
    """Yield each dataclass of a manifest with the keys below which it stands."""
    yield keys, kind
    for name, hint in codec.type_hints(kind).items():
        for one in (hint, *get_args(hint)):
            if is_dataclass(get_origin(one) or one):
                yield from fields_by_place(one, (*keys, name))


OPTIONAL = {
    (*keys, name) for keys, kind in fields_by_place(TableManifest) for name in codec.optional_fields(kind)
}


def is_required(keys):
    names = tuple(key for key in keys if isinstance(key, str))
    return names not in OPTIONAL


def spelled(keys):
    return "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in keys).lstrip(".")


@pytest.mark.parametrize(
    "keys", [k for k in all_keys(encode(fake.manifest())) if is_required(k)], ids=spelled
)
def test_missing_key_is_named(path, keys):
    changed(path, *keys)
    assert message(path) == f"{spelled(keys)} is missing"


def test_a_field_of_a_newer_ptxbench_is_passed_over(path):
    for keys in (("colour",), ("gpus", 0, "colour"), ("part", "colour"), ("sensors", 0, "colour")):
        changed(path, *keys, to={"a": ["newer", "thing"]})
        assert repr(read_run_manifest(path.parent)) == repr(fake.manifest())


def test_shape_of_a_sensor_is_missing_in_older_runs_and_then_a_running_mean(path):
    changed(path, "sensors", 0, "shape")
    assert read_run_manifest(path.parent).sensors == fake.SENSORS


@pytest.mark.parametrize(
    ("keys", "value", "text"),
    [
        (
            (
                "part",
                "run_id",
            ),
            5,
            "part.run_id must be text, not 5",
        ),
        (
            (
                "part",
                "run_id",
            ),
            None,
            "part.run_id must be text, not None",
        ),
        (("commit",), 5, "commit must be text, not 5"),
        (("gpus",), {}, "gpus must be a list"),
        (("gpus",), [], "gpus must not be empty"),
        (
            (
                "part",
                "sessions",
            ),
            [],
            "part has no session, and every run has one",
        ),
        (("gpus", 0), "H200", "gpus[0] must be an object"),
        (("gpus", 0, "sm_count"), "132", "gpus[0].sm_count must be a whole number, not '132'"),
        (("gpus", 0, "sm_count"), True, "gpus[0].sm_count must be a whole number, not True"),
        (("gpus", 0, "sm_count"), 132.0, "gpus[0].sm_count must be a whole number, not 132.0"),
        (("gpus", 0, "power_limit_w"), "700", "gpus[0].power_limit_w must be a number or null, not '700'"),
        (("gpus", 0, "power_limit_w"), False, "gpus[0].power_limit_w must be a number or null, not False"),
        (("gpus", 0, "clocks_locked"), 1, "gpus[0].clocks_locked must be true or false, not 1"),
        (
            ("gpus", 0, "kind"),
            "imagined",
            "gpus[0].kind must be one of real, simulated, replayed, not 'imagined'",
        ),
        (
            ("part", "arguments", "opt_levels", 1),
            "O2",
            "part.arguments.opt_levels[1] must be one of O0, O3, not 'O2'",
        ),
        (("part", "arguments", "opt_levels"), "O3", "part.arguments.opt_levels must be a list"),
        (("part", "order_seed"), 1.5, "part.order_seed must be a whole number, not 1.5"),
        (("sensors",), [], "sensors must not be empty"),
        (
            ("sensors", 0, "averaging_s"),
            -5.5,
            "sensors[0] has averaging_s of -5.5, which no power source has",
        ),
        (("sensors", 0, "refresh_s"), 1e308, "sensors[0] has refresh_s of 1e+308, which no power source has"),
        (("sensors", 0, "lag_s"), None, "sensors[0] has lag_s of nan, which no power source has"),
        (
            ("created",),
            "2026-11-21T03:13:00",
            "created must name its time zone, unlike '2026-11-21T03:13:00'",
        ),
        (
            ("part", "sessions", 0, "start"),
            "yesterday",
            "part.sessions[0].start must be a UTC time such as 2026-11-21T03:13:00+00:00, not 'yesterday'",
        ),
    ],
)
def test_value_that_does_not_fit_is_named(path, keys, value, text):
    changed(path, *keys, to=value)
    assert message(path) == text


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\ufeff{}"])
def test_file_that_is_no_manifest_is_one_line(path, text):
    path.write_text(text)
    message(path)


def test_whole_number_serves_as_a_number(path):
    changed(path, "gpus", 0, "power_limit_w", to=700)
    limit = read_run_manifest(path.parent).gpu.power_limit_w
    assert (limit, type(limit)) == (700.0, float)


def test_same_conditions_are_taken(path):
    require_same(
        fake.manifest(), path, replace(fake.GPU, index=3, max_sm_clock_mhz=float("nan")), fake.ARGUMENTS
    )


@pytest.mark.parametrize(
    "change",
    [
        {"name": "NVIDIA H100"},
        {"target": "sm_90"},
        {"driver": "581.0"},
        {"kind": GpuKind.SIMULATED},
        {"sm_count": 66},
        {"power_limit_w": 500.0},
        {"max_sm_clock_mhz": 1980.0},
        {"clocks_locked": True},
        {"vbios": "x"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_changed_gpu_is_refused_and_the_change_named(path, change):
    ((key, value),) = change.items()
    with pytest.raises(InputError) as error:
        require_same(fake.manifest(), path, replace(fake.GPU, **change), fake.ARGUMENTS)
    assert (
        str(error.value)
        == f"{path} was measured with {key} {getattr(fake.GPU, key)}, this is {value}; start a new run"
    )


def test_a_run_of_other_instructions_is_refused_in_a_line_that_can_be_read(path):
    with pytest.raises(InputError, match="instructions a, this is i0, i1") as error:
        require_equal("instructions", ("a",), tuple(f"i{n}" for n in range(1000)), path)
    assert "and 994 more; start a new run" in str(error.value)


def test_second_board_is_compared_with_itself(path):
    other = replace(fake.GPU, uuid_hash="ba9876543210", power_limit_w=650.0)
    both = replace(fake.manifest(), gpus=(fake.GPU, other))
    require_same(both, path, other, fake.ARGUMENTS)
    with pytest.raises(InputError, match=r"power_limit_w 650\.0, this is 700\.0"):
        require_same(both, path, replace(other, power_limit_w=700.0), fake.ARGUMENTS)


def test_other_arguments_are_refused(path):
    with pytest.raises(
        InputError, match=r"instructions add.f32, fma.rn.f32, this is add.f32; start a new run"
    ):
        require_same(fake.manifest(), path, fake.GPU, replace(fake.ARGUMENTS, instructions=("add.f32",)))


def test_other_ptxbench_is_refused(path):
    old = replace(fake.manifest(), ptxbench_version="0.0.1")
    with pytest.raises(InputError, match=r"ptxbench 0\.0\.1"):
        require_same(old, path, fake.GPU, fake.ARGUMENTS)

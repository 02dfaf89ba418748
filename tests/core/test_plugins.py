import pytest

from ptxbench.core.errors import InputError
from ptxbench.core.plugins import load_plugin, plugin_names
from ptxbench.report import formats


def test_a_package_of_plugins_lists_its_modules_without_an_import_of_them(tmp_path):
    (tmp_path / "second.py").write_text("raise SystemError\n")
    (tmp_path / "first.py").write_text("raise SystemError\n")
    assert plugin_names([str(tmp_path)]) == ("first", "second")


@pytest.mark.parametrize("name", ["xml", "", "..text", "text.render"])
def test_a_name_that_is_no_module_of_the_package_is_refused_with_the_known_ones(name):
    with pytest.raises(InputError, match=r"unknown format .*known: .*csv, html, "):
        load_plugin(formats.__name__, formats.__path__, name, "format")

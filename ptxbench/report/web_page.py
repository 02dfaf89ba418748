"""A page of one file for a browser: a template of this folder with its data in it as JSON.

The template's script puts every text of the data into the page as text, never as markup. Its
Content-Security-Policy lets no other script run and nothing load.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from importlib.resources import files

from ptxbench.core.printable import printable, printable_lines

_SHARED_FILES = {
    "shared_head": "shared_head.html",
    "shared_style": "shared.css",
    "shared_table": "shared_table.css",
    "shared_script": "shared.js",
    "shared_table_script": "shared_table.js",
}
_SHARED = re.compile(f"@@({'|'.join(_SHARED_FILES)})@@")
_MARK = re.compile(r"@@(title|data|script_hash)@@")
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_DIGITS = 6
# What a browser could take for the end of the element that holds the JSON.
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def fill_page(template: str, title: str, document: object) -> str:
    """Return a page.

    Args:
        template: File of this folder; what pages share is in the files `shared*` beside it.
        title: Title, as plain text.
        document: Its data: what JSON has, without numbers that are not finite.
    """
    text = _SHARED.sub(lambda mark: _text(_SHARED_FILES[mark.group(1)]).rstrip("\n"), _text(template))
    (script,) = _SCRIPT.findall(text)
    values = {
        "title": html.escape(printable(title)),
        "data": _safe_json(_harmless(document)),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    # In one pass, so that no text of a run is taken for a mark.
    return _MARK.sub(lambda mark: values[mark.group(1)], text).rstrip("\n")


def plain(value: object) -> object:
    """Return a value as a page has it: numbers to six digits, None for one that is not finite."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def _harmless(value: object) -> object:
    """Return data whose texts can be shown."""
    if isinstance(value, str):
        return value if value.isprintable() else printable_lines(value)
    if isinstance(value, dict):
        return {key: _harmless(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        # Most lists of a page have a number for each of its rows.
        return value if set(map(type, value)) == {int} else [_harmless(item) for item in value]
    return value


def _text(name: str) -> str:
    return files("ptxbench.report").joinpath(name).read_text(encoding="utf-8")


def _safe_json(document: object) -> str:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escaped in _UNSAFE.items():
        text = text.replace(character, escaped)
    return text

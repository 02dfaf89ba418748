"""What meters, instruments, loggers and drivers call things: names.toml."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files

from ptxbench.sensors.base import SourceName

_DATA = tomllib.loads(files(__package__).joinpath("names.toml").read_text(encoding="utf-8"))


def _compiled(section: str) -> dict[str, re.Pattern[str]]:
    texts = {key: text if isinstance(text, str) else "|".join(text) for key, text in _DATA[section].items()}
    return {key: re.compile(text, re.IGNORECASE) for key, text in texts.items()}


# Of whole names or of words in them, and of how files begin.
PATTERNS = _compiled("patterns")
OPENINGS = _compiled("openings")
SOURCES = {name: SourceName(source) for source, names in _DATA["sources"].items() for name in names}
LABELS = tuple(_DATA["windows"]["label"])

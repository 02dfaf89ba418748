"""What errors say: below the command line they speak of arguments, which the command line makes options."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "ptxbench"
FLAG = re.compile(r"(?<![\w-])--[a-z]")
# A whole command, of ptxbench or of another tool, may be named with its options.
COMMAND = re.compile(r"`[^`]*`|'(pip|git) [^']*'")
# These name the field of an option, or are words for another program.
NO_TEXT = {"Opt", "run_tool", "_git", "_run", "_checked"}


def texts(tree):
    """Yield every text of a module that is no documentation, with its line."""
    for parent in ast.walk(tree):
        for node in ast.iter_child_nodes(parent):
            node.parent = parent
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
            yield node, "".join(map(str, parts))
        elif not isinstance(node, ast.Constant) or isinstance(node.parent, ast.Expr | ast.JoinedStr):
            continue
        elif isinstance(node.value, str):
            yield node, node.value


def is_said(node, text):
    """Whether a text is for people: not an option's own definition, nor words for another program."""
    while not isinstance(node, ast.Module):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in NO_TEXT:
            return False
        node = node.parent
    return not text.startswith(("--", "ptxbench "))


BELOW = {
    str(path.relative_to(PACKAGE))
    for path in PACKAGE.rglob("*.py")
    if not path.is_relative_to(PACKAGE / "cli")
}


def test_texts_below_the_command_line_speak_of_arguments():
    sources = {name: (PACKAGE / name).read_text(encoding="utf-8") for name in BELOW}
    found = [
        f"{name}, line {node.lineno}: {text}"
        for name, source in sources.items()
        if FLAG.search(source)
        for node, text in texts(ast.parse(source))
        if FLAG.search(COMMAND.sub("", text)) and is_said(node, text)
    ]
    assert found == []

"""ES modules as one classic script, for a page that is a single file.

A file that is opened from disk cannot import others. The modules are those of the web page (charts
and the libraries under them) and the report's own, which lie as if in a folder `report` beside
`charts`. Each becomes a function that returns what the module exports. Only what our files use is
understood: named imports, exports in front of a declaration, one list of exports.
"""

import re
from importlib.resources import files
from posixpath import dirname, join, normpath

_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
_DECLARED = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
_LISTED = re.compile(r"export\s*\{([^}]*)\};?\s*$")


def bundle(entry: str, *, before: str = "") -> str:
    """The script that runs a module, such as `report/main.js`, after a script that it needs."""
    parts: dict[str, str] = {}
    _collect(entry, parts)
    defined = "\n".join(parts.values())
    return f'"use strict";\n(() => {{\n{before}\nconst modules = {{}};\n{defined}\n}})();'


def static_text(name: str) -> str:
    """The text of a file of the web page, or of the report under `report/`."""
    folder = "reports/assets" if name.startswith("report/") else "server/static"
    path = files("treadle").joinpath(folder, name.removeprefix("report/"))
    return path.read_text(encoding="utf-8")


def _collect(name: str, parts: dict[str, str]) -> None:
    """Add a module after those that it imports; ours have no circles."""
    text = static_text(name)
    named = [match[2] for match in _IMPORT.finditer(text)]
    imports = {path: normpath(join(dirname(name), path)) for path in named}
    for other in imports.values():
        if other not in parts:
            _collect(other, parts)
    parts[name] = _wrapped(name, text, imports)


def _wrapped(name: str, text: str, imports: dict[str, str]) -> str:
    exported = {match[1]: match[1] for match in _DECLARED.finditer(text)}
    listed = _LISTED.search(text)
    if listed is not None:
        pairs = (one.strip().split(" as ") for one in listed[1].split(","))
        exported |= {pair[-1]: pair[0] for pair in pairs}
        text = text[: listed.start()]
    text = _DECLARED.sub("", text)
    text = _IMPORT.sub(lambda match: _bound(match[1], imports[match[2]]), text)
    answer = ", ".join(f"{outer}: {inner}" for outer, inner in exported.items())
    return f'modules["{name}"] = (() => {{\n{text}\nreturn {{ {answer} }};\n}})();'


def _bound(names: str, module: str) -> str:
    return f'const {{{names.replace(" as ", ": ")}}} = modules["{module}"];'

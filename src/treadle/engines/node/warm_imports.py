"""What a script will import, read from its source, and whether importing it early is safe.

Part of the warm interpreter: it runs as the job's user in the job's Python (3.9 or newer), and
imports the standard library alone.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import site
import sys
import sysconfig

FILES_MAX = 200  # of the job's own modules that are read
BYTES_MAX = 1 << 20  # of one of them
# Imported by the first use of a module, not by its import: 1.5 s of CPU for the first optimizer.
COMPANIONS = {"torch": ("torch._dynamo", "torch.utils.data")}
# Read when they are used, not by an import: a script that sets them may be started warm.
READ_LATE = frozenset(
    {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "MASTER_ADDR"}
    | {"MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "NCCL_DEBUG", "TOKENIZERS_PARALLELISM"}
    | {"WANDB_MODE", "WANDB_PROJECT", "CUBLAS_WORKSPACE_CONFIG", "GLOO_SOCKET_IFNAME"}
)
_CHANGES = ("update", "setdefault", "pop", "clear", "popitem", "__setitem__")


class Script:
    """What the source of a script and of the job's own modules says."""

    def __init__(self) -> None:
        self.wanted: dict[str, None] = {}  # modules, in the order of their imports
        self.doubt = ""  # why it must not be started warm


def read_script(path: str | None, folder: str) -> Script:
    """Read a script, and the modules beside it that it imports. None: nothing is known of it."""
    script = Script()
    left = [] if path is None else [path]
    seen: set[str] = set()
    while left and len(seen) < FILES_MAX and not script.doubt:
        file = left.pop(0)
        if file in seen:
            continue
        seen.add(file)
        for name in _read(file, script):
            own = _own_module(name, folder)
            if own:
                left += own
            else:
                script.wanted[name] = None
    return script


def _read(file: str, script: Script) -> list[str]:
    """The names that one file imports at its top level."""
    try:
        if os.path.getsize(file) > BYTES_MAX:
            script.doubt = f"{file} is too large to be read"
            return []
        with open(file, "rb") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        script.doubt = f"{file} cannot be read"
        return []
    found: list[str] = []
    _walk(tree.body, found, script)
    return found


def _walk(body: list[ast.stmt], found: list[str], script: Script) -> None:
    """Collect imports; note changes of the environment that an import could have seen."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = list(ast.walk(statement))
            imports = any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in inner)
            if imports or isinstance(statement, ast.ClassDef):
                _note_changes(inner, script)
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                found += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.append(node.module)
                found += [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found += [alias.name for alias in node.names] + [node.module or ""]
        _note_changes(list(ast.walk(statement)), script)


def _note_changes(nodes: list[ast.AST], script: Script) -> None:
    for node in nodes:
        name = _changed(node)
        if name is not None and name not in READ_LATE:
            script.doubt = f"it sets the variable {name or '?'} for the modules that it imports"


def _changed(node: ast.AST) -> str | None:
    """The variable that it sets, empty if that is not known; None if it sets none."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return _constant(node.slice) if _is_environ(node.value) else None
    if isinstance(node, ast.Call):
        called = node.func
        first = node.args[0] if node.args else None
        if isinstance(called, ast.Attribute) and called.attr in _CHANGES:
            return _constant(first) if _is_environ(called.value) else None
        name = getattr(called, "attr", getattr(called, "id", ""))
        if name in ("putenv", "unsetenv", "load_dotenv"):
            return _constant(first)
    return None


def _is_environ(node: ast.AST) -> bool:
    return getattr(node, "attr", getattr(node, "id", "")) in ("environ", "environb")


def _constant(node: ast.AST | None) -> str:
    value = getattr(node, "value", None)
    return value if isinstance(value, str) else ""


def _own_module(name: str, folder: str) -> list[str]:
    """The files of a module that lies beside the script."""
    found: list[str] = []
    path = folder
    for part in name.split("."):
        path = os.path.join(path, part)
        candidates = (f"{path}.py", os.path.join(path, "__init__.py"))
        found += [file for file in candidates if os.path.isfile(file)]
    return found


# -- importing ------------------------------------------------------------------------------------


def import_all(names: list[str]) -> None:
    """Import those that are installed. What a script catches (ImportError) is no trouble here."""
    for name in names:
        if name in sys.modules or not is_installed(name):
            continue
        try:
            __import__(name)
        except ImportError:
            continue
        for companion in COMPANIONS.get(name, ()):
            try:
                __import__(companion)
            except ImportError:
                continue


def is_installed(name: str) -> bool:
    """Whether a module comes with Python or from site-packages, not from a folder of the job's."""
    top = name.partition(".")[0]
    if top in sys.builtin_module_names:
        return True
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return False
    if spec is None or top == "__main__":
        return False
    origin = spec.origin
    if origin in (None, "built-in", "frozen"):
        if origin is not None:
            return True
        origin = next(iter(spec.submodule_search_locations or ()), "")
    if not any(origin.startswith(folder + os.sep) for folder in _installed_folders()):
        return False
    if top == name:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _installed_folders() -> list[str]:
    paths = sysconfig.get_paths()
    folders = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += site.getsitepackages() if hasattr(site, "getsitepackages") else []
    folders += [each for each in sys.path if each.endswith(("site-packages", "dist-packages"))]
    return [folder for folder in dict.fromkeys(folders) if folder]


def shadowed(folder: str) -> str:
    """A module that was imported here, and that a file beside the script would have replaced."""
    loaded = {name.partition(".")[0] for name in sys.modules}
    with os.scandir(folder) as entries:
        for entry in entries:
            stem, _, ending = entry.name.partition(".")
            if stem not in loaded or stem == "__main__":
                continue
            if ending.endswith(("py", "so", "pyc")):
                return entry.name
            if not ending and os.path.isfile(os.path.join(entry.path, "__init__.py")):
                return entry.name
    return ""


class Files:
    """The files of what was imported, to notice that one changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int, int] | None] = {}

    def add_new(self) -> None:
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and file not in self._known:
                self._known[file] = _sight(file)

    def changed(self) -> str:
        return next((file for file, known in self._known.items() if _sight(file) != known), "")


def _sight(file: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)

"""The client runs on Python 3.9 and later: no file has syntax, annotations or well-known names that are newer.

What annotations say is evaluated when a module is loaded, so `float | None` fails on 3.9 there, while it is fine within quotes.
"""
import ast
import pathlib
import unittest

CLIENT = pathlib.Path(__file__).resolve().parents[2] / "client" / "python"
OLDEST = (3, 9)
NEWER = {"tomllib", "pairwise", "batched", "aiter", "anext", "EncodingWarning", "ExceptionGroup", "BaseExceptionGroup", "StrEnum", "UTC",
         "TypeAlias", "ParamSpec", "Self", "override", "stdlib_module_names", "orig_argv", "bit_count", "file_digest", "get_annotations"}
NEWER_ARGUMENTS = {"zip": {"strict"}, "dataclass": {"slots", "kw_only", "weakref_slot"}, "field": {"kw_only"}, "glob": {"root_dir"},
                   "bisect": {"key"}, "bisect_left": {"key"}, "bisect_right": {"key"}, "insort": {"key"}, "rmtree": {"onexc"},
                   "NamedTemporaryFile": {"delete_on_close"}, "Thread": {"context"}}


def annotations(node):
    """Those of a node that Python evaluates when it loads the module or calls the function around it."""
    found = [getattr(node, "returns", None)] if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
    if isinstance(node, (ast.arg, ast.AnnAssign)):
        found.append(node.annotation)
    return [annotation for annotation in found if annotation]


def unions(node):
    return ["a union by |" for annotation in annotations(node) for part in ast.walk(annotation)
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr)]


def names(node):
    if isinstance(node, ast.Attribute):
        return {node.attr}
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.name for alias in node.names} | {getattr(node, "module", None)}
    return set()


def arguments(node):
    """What a call of a known function hands to it by name."""
    if not isinstance(node, ast.Call):
        return []
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return [f"{name}({keyword.arg}=)" for keyword in node.keywords if keyword.arg in NEWER_ARGUMENTS.get(name, ())]


def newer(text):
    """What a source has that Python 3.9 has not, as `line: what`."""
    try:
        tree = ast.parse(text, feature_version=OLDEST)
    except SyntaxError as error:
        return [f"{error.lineno}: {error.msg}"]
    return [f"{node.lineno}: {what}" for node in ast.walk(tree) for what in unions(node) + sorted(names(node) & NEWER) + arguments(node)]


class PythonVersions(unittest.TestCase):
    def test_every_file_is_for_the_oldest_python(self):
        files = sorted(CLIENT.rglob("*.py"))
        self.assertIn(CLIENT / "watch_hook" / "sitecustomize.py", files)
        for file in files:
            with self.subTest(file.relative_to(CLIENT)):
                self.assertEqual(newer(file.read_text()), [])

    def test_what_is_newer_is_found(self):
        for text in ("match x:\n    case 1:\n        pass\n", "try:\n    pass\nexcept* OSError:\n    pass\n", "type A = int\n",
                     "class A:\n    limit: float | None = None\n", "def f(x: int | None):\n    pass\n", "def f() -> list[int | str]:\n    pass\n",
                     "import tomllib\n", "from itertools import pairwise\n", "zip(a, b, strict=True)\n",
                     "@dataclasses.dataclass(slots=True)\nclass A:\n    pass\n"):
            with self.subTest(text):
                self.assertNotEqual(newer(text), [])

    def test_what_is_not_newer_is_left_alone(self):
        for text in ("x = a | b\n", "def f(x: 'int | None') -> list[int]:\n    pass\n", "if (n := 1):\n    pass\n", "'a'.removeprefix('b')\n"):
            with self.subTest(text):
                self.assertEqual(newer(text), [])


if __name__ == "__main__":
    unittest.main()

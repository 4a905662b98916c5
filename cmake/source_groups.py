"""Groups the sources of a target, so that a group's headers are parsed once. Prints a line a group: its files, with blanks between.

    source_groups.py ROOT MOST_LINES INCLUDE,... SOURCE...

Files whose names could meet stay apart. The local names of a file are those of its unnamed namespaces, its static functions and its
macros. No other file of the group may have the same, call one, or see a header that declares one. Nor may a `using namespace` of one file
make a word of another mean two things. What only looks like a meeting counts as one: that costs another group at worst.
"""

import re
import sys
from pathlib import Path

NOT_CODE = re.compile(  # comments and what stands in quotation marks
    r'R"([^()\s]*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*(?:.|\n)*?\*/')
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
DEFINE = re.compile(r"^[ \t]*#\s*define\s+(\w+)", re.MULTILINE)
TOKEN = re.compile(r"[A-Za-z_]\w*|::|->|[^\s\w]")
WORD = re.compile(r"[A-Za-z_]\w*")
PLAIN = re.compile(r"(?<![\w.:>])[A-Za-z_]\w*")  # neither a member nor of a named scope
CALL = re.compile(r"(?<![\w.:>])([A-Za-z_]\w*)\s*\(")
KINDS = {"struct", "class", "union", "enum", "concept"}


class Source:
    """What one file includes, declares (for itself or for all) and calls."""

    def __init__(self, text):
        self.lines = text.count("\n")
        self.includes = INCLUDE.findall(text)
        text = NOT_CODE.sub(" ", text)
        self.local = {name: "" for name in DEFINE.findall(text)}  # an alias with what it stands for
        text = DIRECTIVE.sub("", text)
        self.words = set(WORD.findall(text))
        self.plain = set(PLAIN.findall(text))
        self.called = set(CALL.findall(text))
        self.functions = set()  # of the local names: of those a variable of another file may have one, by -Wshadow
        self.declared = {}  # the names of each namespace
        self.directives = set()  # the namespaces whose names it uses as its own
        self._read_declarations(TOKEN.findall(text))

    def _read_declarations(self, tokens):
        places, head, parentheses = [], [], 0  # what each open brace is: the name of a namespace, "" without one, None if a body
        for token in tokens:
            outside = None not in places
            if parentheses == 0 and token in "{;}":
                if outside and head and (token == ";" or token == "{" and "namespace" not in head[:2]):
                    self._declare(head, places)
                if token == "{" and outside and "namespace" in head[:2]:
                    self._enter(places, [name for name in head if name not in ("inline", "namespace", "::")])
                elif token == "{":
                    places.append(None)
                elif token == "}" and places:
                    places.pop()
                head = []
            else:
                parentheses += (token == "(") - (token == ")")
                if outside:
                    head.append(token)

    def _enter(self, places, names):
        for i, name in enumerate(names):
            self.declared.setdefault("::".join([*places, *names[:i]]), set()).add(name)
        places.append("::".join(names))

    def _declare(self, head, places):
        if head[:2] == ["using", "namespace"]:
            self.directives.add("".join(head[2:]))
            return
        if head[1:2] == ["("]:  # a macro's use, as TEST_CASE
            return
        if head[0] == "template":
            head = without_angles(head[1:])
        name = declared_name(head)
        if name is None:
            return
        if "" in places or "static" in head:
            self.local[name] = " ".join(head) if head[0] == "using" else ""
            if "(" in head[head.index(name):][1:2]:
                self.functions.add(name)
        else:
            self.declared.setdefault("::".join(places), set()).add(name)


def word(token):
    return token[0].isalpha() or token[0] == "_"


def without_angles(tokens):
    """What follows the parameters of a template."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token == "<") - (token == ">")
        if depth == 0:
            return tokens[i + 1:]
    return tokens


def declared_name(head):
    """The name that a declaration gives to its namespace, or None."""
    kinds = [i for i, token in enumerate(head[:3]) if token in KINDS]
    if kinds and "(" not in head:
        return next((token for token in head[kinds[-1] + 1:] if word(token) and token != "class"), None)
    for i in range(1, len(head)):
        if head[i] in ("(", "=", "[") and word(head[i - 1]) and head[i - 1] not in ("alignas", "decltype", "requires", "noexcept"):
            return None if head[i - 2:i - 1] == ["::"] else head[i - 1]  # a member's definition
    return next((token for token in reversed(head) if word(token)), None)


class Sources:
    """Files, each read once, and the project's headers that they see."""

    def __init__(self, includes):
        self._includes, self._files, self._headers, self._declared = includes, {}, {}, {}

    def file(self, path):
        if path not in self._files:
            self._files[path] = Source(path.read_text(encoding="utf-8"))
        return self._files[path]

    def headers(self, path):
        if path not in self._headers:
            self._headers[path] = set()  # for headers that include one another
            places = [path.parent, *self._includes]
            direct = {next((place / name for place in places if (place / name).is_file()), None) for name in self.file(path).includes}
            direct = {header.resolve() for header in direct if header}
            self._headers[path] = direct.union(*(self.headers(header) for header in direct))
        return self._headers[path]

    def declared(self, path):
        """The names of each namespace that a file and its headers declare."""
        if path not in self._declared:
            names = self._declared[path] = {}
            for file in (path, *self.headers(path)):
                for namespace, found in self.file(file).declared.items():
                    names.setdefault(namespace, set()).update(found)
        return self._declared[path]


class Group:
    def __init__(self, sources):
        self._sources, self.paths, self.lines, self._headers = sources, [], 0, set()

    def add(self, path):
        self.paths.append(path)
        self.lines += self._sources.file(path).lines
        self._headers |= self._sources.headers(path)

    def admits(self, path):
        return not any(self._meets(*pair) or self._confuses(*pair) for old in self.paths for pair in ((path, old), (old, path)))

    def _meets(self, one, other):
        """Whether a local name of one could be taken for something that the other, or a header that only it includes, means."""
        file, headers = self._sources.file, self._sources.headers
        for name, alias in file(one).local.items():
            if name in file(other).local:
                if not alias or alias != file(other).local[name]:
                    return True
            elif name in (file(other).called if name in file(one).functions else file(other).plain) or any(name in names for names in file(other).declared.values()):
                return True
            elif name in file(other).words and any(name in names for names in self._sources.declared(other).values()):
                return True
            elif any(name in file(header).words and any(name in names for names in file(header).declared.values())
                     for header in headers(other) - headers(one)):
                return True
        return False

    def _confuses(self, one, other):
        """Whether a type or namespace of the other could be another with one: by its directives, or by what it and its headers declare."""
        file, declared = self._sources.file, self._sources.declared
        spaces = declared(other)
        names = {space.rpartition("::")[2] for space in [*declared(one), *spaces]}
        words = {word for word in file(other).words if word[0].isupper() or word in names}
        for namespace in file(one).directives - file(other).directives:
            meant = words & (declared(one).get(namespace, set()) | spaces.get(namespace, set()))
            if any(not meant.isdisjoint(names) for of in (one, other) for space, names in declared(of).items() if space != namespace):
                return True
        for namespace, names in declared(one).items():
            new = words & (names - spaces.get(namespace, set()))
            if any(not new.isdisjoint(others) for space, others in spaces.items() if space != namespace):
                return True
        return False


def main():
    root, most_lines, includes = Path(sys.argv[1]).resolve(), int(sys.argv[2]), [Path(place) for place in sys.argv[3].split(",") if place]
    sources, groups = Sources(includes), []
    for path in (Path(argument).resolve() for argument in sys.argv[4:]):
        lines = sources.file(path).lines
        group = next((group for group in groups if group.lines + lines <= most_lines and group.admits(path)), None)
        if group is None:
            group = Group(sources)
            groups.append(group)
        group.add(path)
    for group in groups:
        print(" ".join(str(path.relative_to(root)) for path in group.paths))


if __name__ == "__main__":
    main()

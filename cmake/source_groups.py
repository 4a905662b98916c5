"""Groups the sources of a target, so that a group's headers are parsed once. Prints a line a group: what it holds, with | between.

    source_groups.py ROOT MOST_LINES INCLUDE,... SOURCE...

The local names of a file are those of its unnamed namespaces, its static functions and its macros. Where another file of the group has
the same, uses it, or sees a header that declares it, a macro gives the file another name for it, once the file's headers are read. Files
stay apart where that could rename more than the local name, and where a namespace of one file would make a word of another mean two
things. What only looks like a meeting counts as one: that costs another group at worst.
"""

import re
import sys
from pathlib import Path

NOT_CODE = re.compile(  # comments, attributes and what stands in quotation marks
    r'R"([^()\s]*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*(?:.|\n)*?\*/|\[\[[a-z:_]+\]\]')
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#\s*include\s*([<"][^>"]+[>"])', re.MULTILINE)
DEFINE = re.compile(r"^[ \t]*#\s*define\s+(\w+)", re.MULTILINE)
TOKEN = re.compile(r"[A-Za-z_]\w*|::|->|[^\s\w]")
WORD = re.compile(r"[A-Za-z_]\w*")
CONDITION = re.compile(r"^[ \t]*#\s*if", re.MULTILINE)
MEMBER = re.compile(r"(?<=[.:>])[A-Za-z_]\w*")
PLAIN = re.compile(r"(?<![\w.:>])[A-Za-z_]\w*")  # neither a member nor of a named scope
CALL = re.compile(r"(?<![\w.:>])([A-Za-z_]\w*)\s*\(")
KINDS = {"struct", "class", "union", "enum", "concept"}


class Source:
    """What one file includes, declares (for itself or for all) and calls."""

    def __init__(self, text):
        self.lines = text.count("\n")
        self.includes = INCLUDE.findall(text)
        text = NOT_CODE.sub(" ", text)
        self.macros = set(DEFINE.findall(text))
        self.plain_includes = not self.macros and not CONDITION.search(text)
        self.local = dict.fromkeys(self.macros, "")  # an alias with what it stands for
        text = DIRECTIVE.sub("", text)
        self.words = set(WORD.findall(text))
        self.plain = set(PLAIN.findall(text))
        self.members = set(MEMBER.findall(text))
        self.called = set(CALL.findall(text))
        self.functions = set()  # of the local names: of those a variable of another file may have one, by -Wshadow
        self.declared = {}  # the names of each namespace
        self.opened = {""}  # the namespaces that it declares something in
        self.directives = set()  # the namespaces whose names it uses as its own
        self._read_declarations(TOKEN.findall(text))

    def uses(self, namespace):
        return any(f"::{namespace}".endswith(f"::{directive}") for directive in self.directives)

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
        parts = [name for place in places if place for name in place.split("::")]
        self.opened.update("::".join(parts[:i + 1]) for i in range(len(parts)))

    def _declare(self, head, places):
        if head[0] == "using" and (head[1] == "namespace" or "=" not in head and "" not in places):  # of one name counts as of all
            self.directives.add("".join(head[2:] if head[1] == "namespace" else head[1:-2]))
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
        self._includes, self._files, self._included, self._headers, self._declared = includes, {}, {}, {}, {}

    def file(self, path):
        if path not in self._files:
            self._files[path] = Source(path.read_text(encoding="utf-8"))
        return self._files[path]

    def included(self, path):
        """What a file includes, in its words and as a path in the project, None for others' headers."""
        if path not in self._included:
            places = [path.parent, *self._includes]
            found = {name: next((place / name[1:-1] for place in places if (place / name[1:-1]).is_file()), None)
                     for name in self.file(path).includes}
            self._included[path] = {name: header and header.resolve() for name, header in found.items()}
        return self._included[path]

    def headers(self, path):
        if path not in self._headers:
            self._headers[path] = set()  # for headers that include one another
            direct = {header for header in self.included(path).values() if header}
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
        self._sources, self.lines = sources, 0
        self.renamed = {}  # of each file the local names that get others

    def takes(self, path):
        """Whether a file can join; it has then."""
        renamed = {path: set()}
        if self._has_ambiguous_directives((*self.renamed, path)):
            return False
        for old in self.renamed:
            for one, other in ((path, old), (old, path)):
                if self._confuses(one, other):
                    return False
                for name in self._meetings(one, other):
                    owners = [file for file in (one, other) if name in self._sources.file(file).local]
                    if any(name in self.renamed.get(file, ()) or name in renamed.get(file, ()) for file in owners):
                        continue
                    owner = next((file for file in owners if self._can_rename(file, name)), None)
                    if owner is None or any(name in self._sources.file(file).macros for file in owners):
                        return False
                    renamed.setdefault(owner, set()).add(name)
        for file, names in renamed.items():
            self.renamed.setdefault(file, set()).update(names)
        self.lines += self._sources.file(path).lines
        return True

    def text(self, root):
        """The lines of a file that includes all of it."""
        for number, (path, names) in enumerate(self.renamed.items(), 1):
            if names:
                for text, header in self._sources.included(path).items():
                    yield f'#include "{header.relative_to(root)}"' if header else f"#include {text}"
            yield from (f"#define {name} {name}_in_{number}" for name in sorted(names))
            yield f'#include "{path.relative_to(root)}"'
            yield from (f"#undef {name}" for name in sorted(names))

    def _can_rename(self, path, name):
        """Whether a macro that renames it in a file, below the file's includes, changes the local name alone."""
        file = self._sources.file(path)
        return (file.plain_includes and name not in file.members and
                not any(name in names for names in self._sources.declared(path).values()) and
                not any(name in self._sources.file(header).called for header in self._sources.headers(path)))  # a template's, for its types

    def _meetings(self, one, other):
        """The local names of one that could be taken for something that the other, or a header that only it includes, means."""
        file, headers = self._sources.file, self._sources.headers
        for name, alias in file(one).local.items():
            if name in file(other).local:
                if not alias or alias != file(other).local[name]:
                    yield name
            elif name in (file(other).called if name in file(one).functions else file(other).plain) or any(name in names for names in file(other).declared.values()):
                yield name
            elif name in file(other).words and any(name in names for names in self._sources.declared(other).values()):
                yield name
            elif any(name in file(header).words and any(name in names for names in file(header).declared.values())
                     for header in headers(other) - headers(one)):
                yield name

    def _types(self, path, spaces):
        """The words of a file that could be a type or one of these namespaces."""
        names = {space.rpartition("::")[2] for space in spaces}
        return {word for word in self._sources.file(path).plain if word[0].isupper() or word in names}

    def _has_ambiguous_directives(self, paths):
        """Whether a type or namespace of one could be another, too, by what another uses of all that is declared."""
        file, spaces = self._sources.file, {}
        for path in paths:
            for space, names in self._sources.declared(path).items():
                spaces.setdefault(space, set()).update(names)
        used = {space for space in spaces if any(file(path).uses(space) for path in paths)}
        for path in paths:
            meant = self._sources.declared(path).items()
            words = self._types(path, spaces)
            if any(words & spaces[space] & names for space in used if not file(path).uses(space) for other, names in meant if other != space):
                return True
        return False

    def _confuses(self, one, other):
        """Whether a type or namespace of the other could be another by what one and its headers declare."""
        file, declared = self._sources.file, self._sources.declared
        spaces = declared(other)
        words = self._types(other, [*declared(one), *spaces])
        for namespace, names in declared(one).items():
            used = file(other).uses(namespace)
            if not used and namespace not in file(other).opened:
                continue
            new = words & (names - spaces.get(namespace, set()))
            hidden = "" if used else f"{namespace}::"  # within a namespace its own name comes first
            if any(not new.isdisjoint(others) for space, others in spaces.items()
                   if space != namespace and not (hidden and space.startswith(hidden))):
                return True
        return False


def main():
    root, most_lines, includes = Path(sys.argv[1]).resolve(), int(sys.argv[2]), [Path(place) for place in sys.argv[3].split(",") if place]
    sources, groups = Sources(includes), []
    for path in (Path(argument).resolve() for argument in sys.argv[4:]):
        lines = sources.file(path).lines
        if not any(group.lines + lines <= most_lines and group.takes(path) for group in groups):
            groups.append(Group(sources))
            groups[-1].takes(path)
    for group in groups:
        print("|".join(group.text(root)))


if __name__ == "__main__":
    main()

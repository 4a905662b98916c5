"""Holds the source tree to ARCHITECTURE.md: who may include what, how long files and functions may be.

Functions of C++ are found by their indentation, which clang-format keeps. Usage: check_sources.py ROOT. Prints each broken rule as file:line: rule, and exits 1 when there is one.
"""

import ast
import collections
import pathlib
import re
import subprocess
import sys

# A header prefix may be included only under these folders.
OWNERS = {
    "boost/": ["net/", "tests/net/"],
    "sqlite3.h": ["schema/", "tests/faults/", "tests/schema/published/traces", "tests/fuzz/kept_database.cpp", "tests/fuzz/nsys_database.cpp", "tests/schema/store/changed_files_test.cpp"],
    "SQLiteCpp/": ["schema/"],
    "libpq-fe.h": ["schema/src/postgres", "tests/"],
    "zlib.h": ["schema/src/published", "tests/schema"],
    "nlohmann/": ["schema/src", "net/src/metrics/otlp_", "tuner/src", "estimates/src", "agent/", "coordinator/", "cli/", "tests/", "bench/"],
    "toml++/": ["schema/src/settings"],
    "spdlog/": ["agent/", "coordinator/", "cli/", "tests/"],
    "CLI/": ["agent/", "coordinator/", "cli/", "bench/", "tests/"],
    "google/protobuf": ["schema/", "agent/", "coordinator/"],
    "nvtx3/": ["collectors/inject", "tests/collectors", "bench/"],
    "cupti.h": ["collectors/inject", "tests/collectors", "bench/"],
    "cupti_": ["collectors/inject", "tests/collectors", "bench/"],
    "cuda.h": ["collectors/bench/src/cuda"],
    "cuda_runtime": ["collectors/bench/src/cuda"],
    "cublas": ["collectors/bench/src/cuda"],
}

# Layer folder -> prefixes of our own headers it may include. The build enforces the same edges at link level.
EDGES = {
    "base": ["base/"],
    "schema": ["base/", "schema/", "wire/"],
    "tuner": ["base/", "schema/", "tuner/", "papers/"],
    "estimates": ["base/", "schema/", "estimates/"],
    "collectors/inject": ["schema/record.hpp", "trimtab/"],
    "collectors/nccl": ["schema/nccl.hpp", "schema/nccl_table.hpp", "schema/record.hpp"],
    "collectors/host": ["base/", "schema/", "host/"],
    "collectors/bench": ["base/"],
    "net": ["base/", "net/"],
    "agent": ["base/", "schema/", "wire/", "host/", "net/", "agent/"],
    "coordinator": ["base/", "schema/", "wire/", "tuner/", "host/", "net/", "coordinator/"],
}
OUR_PREFIXES = ["base/", "schema/", "wire/", "tuner/", "estimates/", "papers/", "inject/", "host/", "net/", "agent/", "coordinator/", "cli/"]

# clang 14 builds the fuzz targets, and CI not all of them. With g++ 12's headers it has neither std::ranges::subrange, nor what
# returns one, nor views.
NOT_FOR_CLANG = re.compile(
    r"std::(views::|ranges::(view\w*|subrange|equal_range|find_end|partition|remove|remove_if|rotate|search|search_n|"
    r"stable_partition|unique)\b)"
)
CLANG_BUILDS = re.compile(r"(base|schema|collectors|net|agent|coordinator|tuner|estimates|cli|tests/fuzz)/.*\.(hpp|cpp)")

# Floor of the tuner -> the floors right below it. A file includes its own floor and all that lie below. Its floor is the entry of its
# folder in tuner/src or, of papers, in tuner; else of the folder around that. Strategies and the native model do not lie on one another: none knows the other.
FLOORS = {
    "solvers": [],
    "plan": ["solvers"],
    "pricing": ["plan"],
    "native/costs": ["plan"],
    "native/calibration": ["native/costs"],
    "native/stage": ["native/costs", "pricing"],
    "native/step": ["native/stage"],
    "native/bounds": ["native/step"],
    "native": ["native/bounds", "native/calibration"],
    "search": ["pricing"],
    "strategies": ["search"],
    "strategies/aceso": ["strategies"],
    "strategies/autopipe": ["strategies"],
    "strategies/exhaustive": ["strategies/aceso"],
    "strategies/galvatron": ["strategies"],
    "strategies/h3t": ["strategies"],
    "strategies/interleaved": ["strategies"],
    "strategies/oases": ["strategies"],
    "strategies/target": ["strategies"],
    "strategies/unified": ["strategies/aceso"],
    "outcome": ["strategies"],
    "papers/answers": ["native"],
    "papers/aceso": ["papers/answers", "strategies"],
    "papers/autopipe": ["papers/answers", "strategies/autopipe"],
    "papers/galvatron": ["papers/answers", "strategies/galvatron"],
    "papers/h3t": ["papers/answers", "strategies"],
    "papers/oases": ["papers/answers", "strategies"],
    "papers": ["papers/aceso", "papers/autopipe", "papers/galvatron", "papers/h3t", "papers/oases"],
}
FLOOR_ROOTS = ["tuner/src/", "tuner/papers/"]
PUBLIC = re.compile(r"(base|schema|tuner)/|papers/\w+\.hpp$")

TUNER_STORE_HEADERS = ["schema/database.hpp", "schema/cost_database.hpp", "schema/record.hpp"]
FILE_LIMIT = 600
FUNCTION_LIMIT = 70
TEST_FUNCTION_LIMIT = 110
FOLDER_LIMIT = 40
SOURCE_SUFFIXES = {".hpp", ".cpp", ".h", ".c", ".cu", ".py"}
BANNED_NAMES = re.compile(r"(^|_)(utils?|helpers?|manager|misc|common)(_|\.|$)")


def source_files(root):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        path = root / name
        if path.suffix in SOURCE_SUFFIXES and path.exists():
            yield name, path.read_text(errors="replace")


def includes(text):
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if match:
            yield number, match.group(1)


# What begins a block that is no function.
NO_FUNCTION = re.compile(
    r"((inline|static|constexpr|template\b.*>) )*"
    r"(namespace|class|struct|union|enum|extern|if|else|for|while|switch|do|try|case|default|return)\b|\}"
)


def header_begin(lines, last):
    """The first line of the declaration whose `{` ends line `last`."""
    first = last
    while first > 0 and not re.search(r"[;{}:>]$|^\s*$|^\s*//|^#", lines[first - 1]):
        first -= 1
    return first


def cpp_functions(text):
    """(line, lines) of each function, by a closing brace under the first letter of its declaration."""
    lines = text.splitlines()
    for last, line in enumerate(lines):
        if not line.endswith("{"):
            continue
        first = header_begin(lines, last)
        head = " ".join(part.strip() for part in lines[first : last + 1])
        if "(" not in head or NO_FUNCTION.match(head):
            continue
        indent = re.match(r" *", lines[first]).group()
        end = next((i for i in range(last + 1, len(lines)) if re.match(indent + r"\S", lines[i])), None)
        if end is not None and lines[end] == indent + "}":
            yield first + 1, end - first + 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def long_functions(name, text):
    found = python_functions(text) if name.endswith(".py") else cpp_functions(text)
    limit = TEST_FUNCTION_LIMIT if name.startswith(("tests/", "bench/")) else FUNCTION_LIMIT
    for number, length in found:
        if length > limit:
            yield f"{name}:{number}: a function of {length} lines, the limit is {limit}"


def floor_of(folder):
    """The floor that a folder lies on, None where there is no such."""
    while folder not in FLOORS and "/" in folder:
        folder = folder.rpartition("/")[0]
    return folder if folder in FLOORS else None


def floors_below(floor):
    below = set(FLOORS[floor])
    for other in FLOORS[floor]:
        below |= floors_below(other)
    return below


def broken_floors(name, text):
    """What a file of the tuner includes upwards. Public headers are every floor's, those of papers their own."""
    folder = str(pathlib.PurePath(name).parent).removeprefix("tuner/").removeprefix("src/")
    floor = floor_of(folder)
    if floor is None:
        yield f"{name}: {folder} is no floor of FLOORS"
        return
    for number, header in includes(text):
        papers = header.startswith("papers/") and not floor.startswith("papers")
        if f'"{header}"' not in text or (PUBLIC.match(header) and not papers):
            continue
        target = floor_of(str(pathlib.PurePath(header).parent))
        if target is None:
            yield f'{name}:{number}: "{header}": an include says the folder of its floor'
        elif target != floor and target not in floors_below(floor):
            yield f"{name}:{number}: {floor} must not include {header}: {target} does not lie below it"


def full_folders(names):
    counts = collections.Counter(str(pathlib.PurePath(name).parent) for name in names)
    for folder, count in sorted(counts.items()):
        if count > FOLDER_LIMIT:
            yield f"{folder}: {count} source files, the limit of a folder is {FOLDER_LIMIT}"


def broken_rules(name, text):
    yield from long_functions(name, text)
    if any(name.startswith(root) for root in FLOOR_ROOTS):
        yield from broken_floors(name, text)
    for number, header in includes(text):
        for prefix, owners in OWNERS.items():
            if header.startswith(prefix) and not any(name.startswith(owner) for owner in owners):
                yield f"{name}:{number}: <{header}> may be included only under {', '.join(owners)}"
        for layer, allowed in EDGES.items():
            ours = any(header.startswith(prefix) for prefix in OUR_PREFIXES)
            if name.startswith(layer + "/") and ours and not any(header.startswith(prefix) for prefix in allowed):
                yield f"{name}:{number}: {layer} must not include {header}"
        if name.startswith("tuner/") and header in TUNER_STORE_HEADERS:
            yield f"{name}:{number}: the tuner is pure and must not include {header}"
    if CLANG_BUILDS.fullmatch(name):
        for number, line in enumerate(text.splitlines(), 1):
            for match in NOT_FOR_CLANG.finditer(line):
                yield f"{name}:{number}: clang 14 cannot compile {match.group()}"
    lines = text.count("\n")
    if lines > FILE_LIMIT:
        yield f"{name}: {lines} lines, the limit is {FILE_LIMIT}"
    if BANNED_NAMES.search(pathlib.PurePath(name).name):
        yield f"{name}: a file's name is its concept; no utils, helper, manager, misc or common"
    if name.endswith(".hpp") and "#pragma once" not in text:
        yield f"{name}: a header without #pragma once"


def main():
    root = pathlib.Path(sys.argv[1])
    files = list(source_files(root))
    if not files:
        sys.exit(f"no sources found under {root}")
    broken = [rule for name, text in files for rule in broken_rules(name, text)]
    broken += full_folders(name for name, _ in files)
    print("\n".join(broken) or f"{len(files)} files keep the rules")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

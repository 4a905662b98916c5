"""Holds the source tree to ARCHITECTURE.md: who may include what, how long files and functions may be.

Usage: check_sources.py ROOT. Prints each broken rule as file:line: rule, and exits 1 when there is one.
"""

import pathlib
import re
import subprocess
import sys

# A header prefix may be included only under these folders.
OWNERS = {
    "boost/": ["net/", "tests/net/"],
    "sqlite3.h": ["schema/", "tests/faults/", "tests/fuzz/kept_database.cpp"],
    "SQLiteCpp/": ["schema/"],
    "libpq-fe.h": ["schema/src/postgres", "tests/"],
    "zlib.h": ["schema/src/published", "tests/schema"],
    "nlohmann/": ["schema/src", "net/src/metrics/otlp_", "tuner/src", "agent/", "coordinator/", "cli/", "tests/", "bench/"],
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
    "tuner": ["base/", "schema/", "tuner/"],
    "collectors/inject": ["schema/record.hpp", "trimtab/"],
    "collectors/nccl": ["schema/nccl.hpp", "schema/nccl_table.hpp", "schema/record.hpp"],
    "collectors/host": ["base/", "schema/", "host/"],
    "collectors/bench": ["base/"],
    "net": ["base/", "net/"],
    "agent": ["base/", "schema/", "wire/", "host/", "net/", "agent/"],
    "coordinator": ["base/", "schema/", "wire/", "tuner/", "net/", "coordinator/"],
}
OUR_PREFIXES = ["base/", "schema/", "wire/", "tuner/", "inject/", "host/", "net/", "agent/", "coordinator/", "cli/"]

# clang 14 builds the fuzz targets, and CI not all of them. With g++ 12's headers it has neither std::ranges::subrange, nor what
# returns one, nor views.
NOT_FOR_CLANG = re.compile(
    r"std::(views::|ranges::(view\w*|subrange|equal_range|find_end|partition|remove|remove_if|rotate|search|search_n|"
    r"stable_partition|unique)\b)"
)
CLANG_BUILDS = re.compile(r"(base|schema|collectors|net|agent|coordinator|tuner|cli|tests/fuzz)/.*\.(hpp|cpp)")

TUNER_STORE_HEADERS = ["schema/database.hpp", "schema/cost_database.hpp", "schema/record.hpp"]
FILE_LIMIT = 600
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


def broken_rules(name, text):
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
    print("\n".join(broken) or f"{len(files)} files keep the rules")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

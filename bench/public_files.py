"""Which of a framework's own scripts and configurations `trimtab model extract` reads, and why not the others.

    TRIMTAB_SOURCES=FOLDER bench/public_files.py [--program build/release/bin/trimtab] > bench/results/public_files.md

FOLDER holds Megatron-LM's sources as Megatron-LM. What a script leaves to a run (its global batch, its tokenizer's vocabulary) is given
behind --, once each, and the table says so.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PATTERNS = ("examples/**/*.sh", "tests/functional_tests/**/model_config*.yaml")
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
# What the reader may ask for, and what is answered. A vocabulary of Llama 3's size: the figure only has to be possible.
ANSWERS = {"--global-batch-size": "256", "--vocab-size": "128256"}


def extract(program, path, given):
    words = [program, "model", "extract", "--megatron", path.name, *(["--", *given] if given else [])]
    return subprocess.run(words, cwd=path.parent, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)


def parameters(model):
    """Tied ones count once."""
    whole = sum(one["parameter_bytes"] for one in model["operators"])
    tied = sum(one["bytes"] * (len(one["operators"]) - 1) for one in model.get("tied_parameters", []))
    return (whole - tied) // ITEM_BYTES[model["dtype"]]


def without_advice(reason):
    """What was expected and found. What to do comes last, behind a semicolon."""
    return (reason.rpartition("; ")[0] or reason).replace("; ", ": ")


def outcome(program, path):
    """("read" or "refused", what was given, the parameters or the reason)."""
    given = []
    while True:
        done = extract(program, path, given)
        if done.returncode == 0:
            return "read", given, f"{parameters(json.loads(done.stdout)):,} parameters"
        if done.returncode != 2:
            return "failed", given, f"exit code {done.returncode}"
        reason = done.stderr.splitlines()[0].removeprefix("trimtab: ").removeprefix(f"{path.name}: ")
        asked = re.search(r"give (--[a-z-]+) N behind --", reason)
        if not asked or asked[1] not in ANSWERS or asked[1] in given:
            return "refused", given, without_advice(reason)
        given += [asked[1], ANSWERS[asked[1]]]


def kind(reason):
    """The reason without what is each file's own."""
    return re.sub(r'"[^"]*"', "...", reason)


def revision(folder):
    done = subprocess.run(["git", "-C", folder, "log", "-1", "--format=%h of %as"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "of an unknown revision"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "trimtab")
    parser.add_argument("--revision", help="of the sources, where they are no git checkout")
    options = parser.parse_args()
    folder = pathlib.Path(os.environ.get("TRIMTAB_SOURCES", "")) / "Megatron-LM"
    files = sorted(path for pattern in PATTERNS for path in folder.glob(pattern))
    if not files:
        sys.exit(f"{folder} has none of {', '.join(PATTERNS)}; name the folder of sources in TRIMTAB_SOURCES")
    rows = [(path.relative_to(folder), *outcome(options.program.resolve(), path)) for path in files]
    print("# Megatron-LM's own scripts and configurations\n")
    print(f"Its sources are {options.revision or revision(folder)}. Made by `TRIMTAB_SOURCES=FOLDER bench/public_files.py`.")
    print("A configuration (.yaml) does not name its program: BERT's four are read as the GPT of the same options.\n")
    counts = collections.Counter((path.suffix, what if not given else f"{what}, given {' and '.join(given[::2])}")
                                 for path, what, given, _ in rows)
    print("| files | outcome | number |\n| --- | --- | --- |")
    for (suffix, what), number in sorted(counts.items()):
        print(f"| {suffix} | {what} | {number} |")
    print("\n| refused because | files |\n| --- | --- |")
    reasons = collections.Counter(kind(reason) for _, what, _, reason in rows if what != "read")
    for reason, number in reasons.most_common():
        print(f"| {reason} | {number} |")
    print("\n| file | outcome | given | parameters, or why not |\n| --- | --- | --- | --- |")
    for path, what, given, reason in rows:
        print(f"| {path} | {what} | {' '.join(given)} | {reason} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

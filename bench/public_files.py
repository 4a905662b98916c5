"""Which of frameworks' own scripts and configurations `trimtab model extract` and `trimtab plan import` read, and why not the others.

    TRIMTAB_SOURCES=FOLDER bench/public_files.py [--program build/release/bin/trimtab] > bench/results/public_files.md

FOLDER holds Megatron-LM's sources as Megatron-LM and, if it has them, DeepSpeedExamples. What a script leaves to a run (its global batch, its
tokenizer's vocabulary) is given behind --, once each, and the table says so. The plan of each file that is read is imported, exported to its
framework and imported again: both must be the same document. A configuration of DeepSpeed says nothing of its model, so it gets a small one.
What each file is (a dense GPT whose size it says, or why it is none) is told here by its text alone, not by what the program says of it.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "targets"), str(ROOT / "bench" / "targets")]

import meaning  # noqa: E402
import public_kinds  # noqa: E402

PATTERNS = ("examples/**/*.sh", "tests/functional_tests/**/model_config*.yaml")
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
# What the reader may ask for, and what is answered. A vocabulary of Llama 3's size: the figure only has to be possible.
ANSWERS = {"--global-batch-size": "256", "--vocab-size": "128256"}
# Ranks that a plan is imported for, in turn, until one fits. None: as the file says.
RANKS = (None, 8, 1, 16, 64, 96, 128, 1024)
DEEPSPEED = ("train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization")  # one of these makes a file a configuration


class Files:
    """The program on one framework's files, in their own folders, with documents of its own in a temporary one."""

    def __init__(self, program, scratch):
        self._program, self._scratch = program, pathlib.Path(scratch)

    def run(self, folder, *words):
        return subprocess.run([self._program, *map(str, words)], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=60, check=False)

    def write(self, name, text):
        (self._scratch / name).write_text(text)
        return self._scratch / name

    def extract(self, path, given):
        return self.run(path.parent, "model", "extract", "--megatron", path.name, *(["--", *given] if given else []))

    def imported(self, path, framework, words):
        """The import on the first number of ranks that fits, or the first refusal for another reason than that none was named."""
        refused = None
        for ranks in RANKS:
            done = self.run(path.parent, "plan", "import", path.name, "--from", framework, *(("--ranks", ranks) if ranks else ()), *words)
            if done.returncode == 0:
                return done
            if refused is None or "--ranks: needed" in refused.stderr:
                refused = done
        return refused

    def plan(self, path, framework, model, given=()):
        """"same on N" ranks where a plan is the same after an export and another import, or why there is none."""
        words = ["--model", self.write("model.json", json.dumps(model))]
        done = self.imported(path, framework, [*words, *(["--", *given] if given else [])])
        if done.returncode != 0:
            return f"refused: {reason_of(done, path)}"
        plan = json.loads(done.stdout)
        self.write("model.json", json.dumps({**model, "global_batch": plan["global_batch"]}))
        file = self.write("plan.json", done.stdout)
        done = self.run(path.parent, "plan", "export", file, "--to", framework, *words, "--json")
        if done.returncode != 0:
            return f"no export: {reason_of(done, path)}"
        written = json.loads(done.stdout)
        read = [self.write(written["file_name"], written["file_text"])] if written["file_name"] else []
        ranks = 1 + max(device for stage in plan["stages"] for device in stage["devices"])
        done = self.run(path.parent, "plan", "import", *read, "--from", framework, "--ranks", ranks, *words, "--", *written["arguments"])
        if done.returncode != 0:
            return f"no second import: {reason_of(done, path)}"
        return f"{'same' if json.loads(done.stdout) == plan else 'another plan'} on {ranks}"


def parameters(model):
    """Tied ones count once."""
    whole = sum(one["parameter_bytes"] for one in model["operators"])
    tied = sum(one["bytes"] * (len(one["operators"]) - 1) for one in model.get("tied_parameters", []))
    return (whole - tied) // ITEM_BYTES[model["dtype"]]


def reason_of(done, path):
    """What was expected and found. What to do comes last, behind a semicolon."""
    if done.returncode != 2:
        return f"exit code {done.returncode}"
    lines = done.stderr.splitlines()
    told = next((at for at, line in enumerate(lines) if line.startswith("trimtab: ")), 0)
    said = lines[told].removeprefix("trimtab: ").removeprefix(f"{path.name}: ")
    said = re.sub(r"^\S*/model\.json: ", "", said)  # of this program's own making
    if " breaks " in said:  # rules, a line each
        said = lines[told + 1].strip()
    return (said.rpartition("; ")[0] or said).replace("; ", ": ").replace("|", "or")


def outcome(files, path):
    """("read" or "refused", what was given, the parameters or the reason, what became of the plan)."""
    given = []
    while True:
        done = files.extract(path, given)
        if done.returncode == 0:
            model = json.loads(done.stdout)
            return "read", given, f"{parameters(model):,} parameters", files.plan(path, "megatron", model, given)
        if done.returncode != 2:
            return "failed", given, f"exit code {done.returncode}", ""
        asked = re.search(r"give (--[a-z-]+) N behind --", done.stderr.splitlines()[0])
        if not asked or asked[1] not in ANSWERS or asked[1] in given:
            return "refused", given, reason_of(done, path), ""
        given += [asked[1], ANSWERS[asked[1]]]


def kind(reason):
    """The reason without what is each file's own."""
    without = re.sub(r'"[^"]*"(, "[^"]*")*', "...", reason)
    return re.sub(r"\b\d+(\.\d+)?[BM]?\b", "N", without)


def revision(folder):
    done = subprocess.run(["git", "-C", folder, "log", "-1", "--format=%h of %as"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "of an unknown revision"


def counted(heading, ways):
    print(f"\n| {heading} | files |\n| --- | --- |")
    for way, number in collections.Counter(map(kind, ways)).most_common():
        print(f"| {way} | {number} |")


def judged(rows):
    """What the files are, beside what became of them; and those that are dense GPTs and are not read."""
    dense = [(path, what) for path, what, *_, file_kind in rows if file_kind == public_kinds.DENSE]
    missed = [path for path, what in dense if what != "read"]
    print(f"**Dense GPTs whose size the file says: {len(dense)}, of these read: {len(dense) - len(missed)}.** Not read: "
          f"{', '.join(map(str, missed)) or 'none'}.\n")
    print("| what a file is, by its text | files | read | refused |\n| --- | --- | --- | --- |")
    kinds = collections.Counter(file_kind for *_, file_kind in rows)
    for file_kind, number in sorted(kinds.items(), key=lambda one: (public_kinds.ORDER.index(one[0]), one)):
        read = sum(what == "read" for _, what, *_, other in rows if other == file_kind)
        print(f"| {file_kind} | {number} | {read} | {number - read} |")
    print("\nPlans of models with experts are refused by name: nothing prices experts yet.\n")


def megatron(folder, files, said):
    paths = sorted(path for pattern in PATTERNS for path in folder.glob(pattern))
    if not paths:
        sys.exit(f"{folder} has none of {', '.join(PATTERNS)}; name the folder of sources in TRIMTAB_SOURCES")
    rows = [(path.relative_to(folder), *outcome(files, path), public_kinds.kind_of(folder, path)) for path in paths]
    print("# Frameworks' own scripts and configurations\n\n## Megatron-LM\n")
    print(f"Its sources are {said or revision(folder)}. Made by `TRIMTAB_SOURCES=FOLDER bench/public_files.py`.")
    print("A configuration (.yaml) does not name its program: BERT's four are read as the GPT of the same options.\n")
    judged(rows)
    counts = collections.Counter((path.suffix, what if not given else f"{what}, given {' and '.join(given[::2])}")
                                 for path, what, given, *_ in rows)
    print("| files | outcome | number |\n| --- | --- | --- |")
    for (suffix, what), number in sorted(counts.items()):
        print(f"| {suffix} | {what} | {number} |")
    counted("refused because", [reason for _, what, _, reason, *_ in rows if what != "read"])
    print("\nOf the files that are read, the plan is imported, exported as Megatron-LM's arguments and imported again. Ranks are those of the file's")
    print(f"launcher, or the first of {', '.join(map(str, RANKS[1:]))} that fits.")
    counted("plan of a file that is read, and of how many ranks", [plan for _, what, _, _, plan, _ in rows if what == "read"])
    print("\n| file | what it is | outcome | given | parameters, or why not | plan |\n| --- | --- | --- | --- | --- | --- |")
    for path, what, given, reason, plan, file_kind in rows:
        print(f"| {path} | {file_kind} | {what} | {' '.join(given)} | {reason} | {plan} |")


def deepspeed(folder, files):
    paths = [path for path in sorted(folder.rglob("*.json")) if any(word in path.read_text(errors="replace") for word in DEEPSPEED)]
    rows = [(path.relative_to(folder), files.plan(path, "deepspeed", meaning.Shape(4).document(8))) for path in paths]
    print("\n## DeepSpeed\n")
    print(f"DeepSpeedExamples is {revision(folder)}. It has {len(rows)} files (.json) that name {', '.join(DEEPSPEED[:-1])} or {DEEPSPEED[-1]}.")
    print("Each is imported, exported and imported again as above, with a model of four layers.")
    counted("plan, and of how many ranks", [plan for _, plan in rows])
    print("\n| file | plan |\n| --- | --- |")
    for path, plan in rows:
        print(f"| {path} | {plan} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "trimtab")
    parser.add_argument("--revision", help="of Megatron-LM's sources, where they are no git checkout")
    options = parser.parse_args()
    sources = pathlib.Path(os.environ.get("TRIMTAB_SOURCES", ""))
    with tempfile.TemporaryDirectory() as scratch:
        files = Files(options.program.resolve(), scratch)
        megatron(sources / "Megatron-LM", files, options.revision)
        if (sources / "DeepSpeedExamples").is_dir():
            deepspeed(sources / "DeepSpeedExamples", files)
    return 0


if __name__ == "__main__":
    sys.exit(main())

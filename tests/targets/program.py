"""The `trimtab` program under test, and a place for its documents."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("TRIMTAB_BUILD", ROOT / "build" / "release")) / "bin" / "trimtab"


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def seed():
    """Of this run's random plans; TARGETS_SEED repeats one."""
    value = int(os.environ.get("TARGETS_SEED") or int.from_bytes(os.urandom(4), "little"))
    print(f"seed: TARGETS_SEED={value}", file=sys.stderr)
    return value


class ProgramTest(unittest.TestCase):
    def setUp(self):
        if not PROGRAM.exists():
            self.skipTest(f"{PROGRAM} is not built")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, document):
        path = self.folder / name
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def export(self, plan, model, target):
        return run("plan", "export", self.write("plan.json", plan), "--to", target, "--model",
                   self.write("model.json", model), "--json")

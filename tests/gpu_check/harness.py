"""Where the parts of scripts/gpu-check are."""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
BIN = pathlib.Path(os.environ.get("TRIMTAB_TEST_BIN", ROOT / "build/release/bin"))
LIB = pathlib.Path(os.environ.get("TRIMTAB_TEST_LIB", ROOT / "build/release/lib"))
SCRIPT = ROOT / "scripts" / "gpu-check"


class ManualClock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

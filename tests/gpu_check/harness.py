"""Where the parts of scripts/gpu-check are."""
import importlib.machinery
import importlib.util
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
BIN = pathlib.Path(os.environ.get("TRIMTAB_TEST_BIN", ROOT / "build/release/bin"))
LIB = pathlib.Path(os.environ.get("TRIMTAB_TEST_LIB", ROOT / "build/release/lib"))
SCRIPT = ROOT / "scripts" / "gpu-check"
HAS_PYTORCH = importlib.util.find_spec("torch") is not None  # without loading it, which takes a second


def load_script():
    loader = importlib.machinery.SourceFileLoader("gpu_check_script", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class ManualClock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

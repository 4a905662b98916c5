"""The section beside Nsight Systems: both count the same kernels, and who does not record any says so."""
import contextlib
import json
import pathlib
import shutil
import sqlite3

from . import arms, child, taken_ring
from .installation import ROOT
from .sections import Failed, Skipped

PROGRAM = pathlib.Path(__file__).with_name("torch_programs.py")
OPTIONS = ("profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true", "--export=sqlite")


def nsys(installation, inherited, budget, *, device="cuda"):
    """The same launches under nsys alone, and with Trimtab in the process."""
    tool = shutil.which("nsys", path=inherited.get("PATH"))
    if tool is None:
        raise Skipped("there is no nsys on the PATH: install Nsight Systems beside CUDA's toolkit, or name its folder in PATH")
    request = json.dumps({"program": "touched", "settings": {"client": str(ROOT / "client/python"), "device": device}})

    def seen(name, added):
        """What the program tells, and how many kernels nsys has seen of it."""
        out = installation.folder / f"nsys-{name}"
        output = child.run([tool, *OPTIONS, f"--output={out}", "python3", PROGRAM, request], budget,
                           environment={**arms.cleared(inherited), **added})
        told = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        if not told or not told[-1]["right"]:
            raise Failed(f"{name}: the program did not end as it does: {output[-300:]}")
        return told[-1]["launches"], kernels_in(out.with_suffix(".sqlite"))

    launches, alone = seen("alone", {})
    path = installation.folder / "nsys.sock"
    with contextlib.closing(taken_ring.Listener(path)) as listener:
        full = arms.environment("full", installation.library, path)
        # Not through NVTX, which nsys takes: Trimtab is in the process whoever has CUDA's injection.
        _, beside = seen("beside", {**full, "TRIMTAB_LIBRARY": str(installation.library), "TRIMTAB_RANGES": "client"})
        try:
            ring = listener.take(1)  # It has been waiting.
        except TimeoutError:
            raise Failed("no record ring came from the process under nsys", {"nsys": {"alone": alone, "beside": beside}}) from None
    with contextlib.closing(ring):
        windows = {why for _, _, _, why in ring.drained(taken_ring.WINDOW)}
        ours = {"kernels": ring.counts[taken_ring.KERNEL], "state": ring.state(), "windows": sorted(windows)}
    return told_of_both({"launches": launches, "alone": alone, "beside": beside, "trimtab": ours})


def kernels_in(path):
    """0 where nsys has seen none: the table is not there."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'").fetchone():
            return 0
        return database.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0]


def told_of_both(counts):
    """The section's result; raises Failed where one has lost records without a word."""
    result, ours = {"nsys": counts}, counts["trimtab"]
    if counts["alone"] < counts["launches"]:
        raise Skipped(f"nsys sees {counts['alone']} of {counts['launches']} kernels here even without Trimtab")
    if counts["beside"] < counts["alone"]:
        raise Failed(f"nsys saw {counts['beside']} of {counts['alone']} kernels with Trimtab in the process", result)
    silent = ours["state"] == taken_ring.RUNNING and not ours["windows"]
    if ours["kernels"] < counts["launches"] and silent:
        raise Failed(f"Trimtab recorded {ours['kernels']} of {counts['launches']} kernels and says nothing of it", result)
    return result

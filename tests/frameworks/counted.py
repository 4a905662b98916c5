"""Runs a script as python would, and leaves the compiler's counters beside it: counted.py SCRIPT ARGUMENT..."""
import atexit
import json
import os
import runpy
import sys


def leave():
    from torch._dynamo import utils

    names = ("graph_break", "unimplemented", "stats", "frames")
    counters = {name: dict(counts) for name, counts in utils.counters.items() if name in names}
    counters["compilations"] = len(utils.get_compilation_metrics())
    with open(f"counters-{os.environ.get('RANK', '0')}.json", "w", encoding="utf-8") as file:
        json.dump(counters, file)


atexit.register(leave)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")

"""Whether a job that runs again on the costs of its earlier runs is predicted better: the error of every predicted plan, run by
run.

    bench/repeated_runs.py [--job examples/gpt-cpu/job.toml] [--runs 3] [--load 1] [--only quiet | loaded] [--keep FOLDER] [--out bench/results/repeated_runs.md]

Two series of runs, each on a database of its own: one on a quiet machine, and one with planted load beside its first run (so many
processes that compute all the time). A series' later runs begin with what the earlier ones have stored: costs of the benchmark and of
training, and what trials have taught. A run's error is the mean over its plans (the initial one and those tried) of
|predicted / measured - 1|, with predictions as the search made them, before a plan ran.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUSY = "while True:\n    sum(range(100000))\n"


def measured_plans(report):
    """(name, predicted, predicted before calibration, measured), ms, of every plan that was measured."""
    rows = []
    for name, plan in [("initial", report["initial"])] + [(f"trial {one['id']}", one) for one in report["trials"]]:
        measured = plan.get("measured_ms") or {}
        if measured.get("mean") and plan.get("predicted_ms"):
            rows.append((name, plan["predicted_ms"], plan["predicted_before_calibration_ms"], measured["mean"]))
    return rows


def errors(rows, column):
    return [abs(row[column] / row[3] - 1) for row in rows]


def run(job, directory, number, load):
    """One tune; its report and how long it took."""
    out = directory / f"out{number}"
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(load)]
    begun = time.monotonic()
    try:
        done = subprocess.run([ROOT / "build/release/bin/trimtab", "tune", "--job", job, "--state", directory / "state",
                               "--out", out], capture_output=True, text=True)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    if done.returncode != 0:
        sys.exit(f"run {number} failed:\n{done.stdout}\n{done.stderr}")
    report = json.loads((out / "report.json").read_text())
    subprocess.run([ROOT / "build/release/bin/trimtab", "down", "--state", directory / "state"], capture_output=True)
    return report, time.monotonic() - begun


def series(name, options, load):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="repeated-runs-", dir=options.keep))
    lines, means = [], []
    try:
        for number in range(1, options.runs + 1):
            beside = load if number == 1 else 0
            report, seconds = run(options.job, directory, number, beside)
            rows = measured_plans(report)
            means.append(100 * statistics.mean(errors(rows, 1)))
            for plan, predicted, before, measured in rows:
                lines.append(f"| {name} | {number} | {plan} | {before:.0f} | {predicted:.0f} | {measured:.0f} | "
                             f"{100 * (predicted / measured - 1):+.1f} % |")
            print(f"{name}, run {number}: {means[-1]:.1f} % ({seconds:.0f} s)", flush=True)
    finally:
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
    return lines, means


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", default=str(ROOT / "examples/gpt-cpu/job.toml"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--load", type=int, default=1)
    parser.add_argument("--only", choices=("quiet", "loaded"))
    parser.add_argument("--keep", help="a folder that keeps each series' databases and reports")
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.keep:
        pathlib.Path(options.keep).mkdir(parents=True, exist_ok=True)
    chosen = {"quiet": ("quiet", 0), "loaded": (f"{options.load} busy beside run 1", options.load)}
    tables = [(name, *series(name, options, load)) for which, (name, load) in chosen.items() if options.only in (None, which)]
    text = "# The same job again and again on one database\n\n"
    text += f"`{' '.join(['bench/repeated_runs.py', *sys.argv[1:]])}`. What the columns are: the head of that file.\n\n"
    text += "| series | mean error of run " + " | run ".join(str(i + 1) for i in range(options.runs)) + " |\n"
    text += "| --- |" + " ---: |" * options.runs + "\n"
    for name, _, means in tables:
        text += f"| {name} | " + " | ".join(f"{mean:.1f} %" for mean in means) + " |\n"
    text += "\n| series | run | plan | before calibration, ms | predicted, ms | measured, ms | off |\n"
    text += "| --- | ---: | --- | ---: | ---: | ---: | ---: |\n" + "\n".join(line for _, lines, _ in tables for line in lines) + "\n"
    print(text)
    if options.out:
        pathlib.Path(options.out).write_text(text)


if __name__ == "__main__":
    main()

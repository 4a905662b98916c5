#!/usr/bin/env python3
"""Planted noise and planted drift of the same size, on the real example: makes the table of bench/results/noise_and_drift_real.md.

    sudo bench/drift/real_example.py [--runs 10] [--lasting 6] [--share 0.5] [--by work | cap] [--out FILE.md]

A small GPT trains on two ranks of this machine's cores, with the real daemons (examples/gpt-cpu/long.toml; no plan is tried). Rank 0 keeps
`share` of its core where something is planted: a busy process beside it (`work`), or a limit of a cgroup (`cap`). Planted noise comes and goes,
exponentially: a quarter of `trials.lasting_s` in the mean, four times as long away, for 25 times as long in all. Planted drift comes after ten
times as long and stays: until it is told, for 15 times as long at most. `trials.lasting_s` is a tenth of its default or so, as are the steps. What
was told, when and who was named is read in the job's report. Needs root, for cgroups, and a machine that does nothing else.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/system"))
from installation import Installation, rank_of, rank_processes, wait_until  # noqa: E402

NAME = "gpt-cpu-drift"
BUSY = "while True:\n    sum(range(100000))\n"
PERIOD_US = 10000
SHARES = 4096  # Of the busy process's group. The daemons, outside of both groups, weigh less.
NOISE_LASTS, CALM_LASTS, DRIFT_LASTS = 25, 10, 15  # Times trials.lasting_s.
STAYS, AWAY = 0.25, 1  # In the mean, of planted noise.


class Group:
    """Of processes that share processors by the kernel's rules: version 1 or 2 of the cpu controller."""

    def __init__(self, name):
        root = pathlib.Path("/sys/fs/cgroup")
        self._first = (root / "cpu/cpu.cfs_quota_us").exists()
        self._folder = (root / "cpu" if self._first else root) / f"trimtab-{os.getpid()}-{name}"
        if not self._first:
            (root / "cgroup.subtree_control").write_text("+cpu")
        self._folder.mkdir()

    def take(self, pid):
        (self._folder / "cgroup.procs").write_text(str(pid))

    def weigh(self, shares):
        file, value = ("cpu.shares", shares) if self._first else ("cpu.weight", max(1, round(shares * 100 / 1024)))
        (self._folder / file).write_text(str(int(value)))

    def limit(self, share):
        """Of one core; None: no limit."""
        quota = None if share is None else int(share * PERIOD_US)
        if not self._first:
            (self._folder / "cpu.max").write_text(f"{quota or 'max'} {PERIOD_US}")
            return
        (self._folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (self._folder / "cpu.cfs_quota_us").write_text(str(quota or -1))

    def remove(self):
        wait_until(lambda: not (self._folder / "cgroup.procs").read_text(), f"the end of what runs in {self._folder}", 30)
        self._folder.rmdir()


class Planted:
    """What leaves rank 0 a share of its core, while it is on."""

    def __init__(self, pid, share, by):
        self._rank, self._share, self._by, self._work = Group("rank"), share, by, None
        self._rank.take(pid)
        self.spans = []  # (on, off), of time.time(): off is None while it is on.
        if by == "work":
            self._others = Group("work")
            self._others.weigh(SHARES)
            self._rank.weigh(SHARES * share / (1 - share))
            self._work = subprocess.Popen([sys.executable, "-c", BUSY])
            self._work.send_signal(signal.SIGSTOP)
            os.sched_setaffinity(self._work.pid, {0})
            self._others.take(self._work.pid)

    def on(self):
        self.spans.append([time.time(), None])
        self._set(True)

    def off(self):
        self._set(False)
        self.spans[-1][1] = time.time()

    def _set(self, on):
        if self._by == "cap":
            return self._rank.limit(self._share if on else None)
        self._work.send_signal(signal.SIGCONT if on else signal.SIGSTOP)

    def close(self):
        """Once the job has ended."""
        if self._work:
            self._work.kill()
            self._work.wait()
            self._others.remove()
        self._rank.remove()


def write_job(trimtab, lasting):
    text = (ROOT / "examples/gpt-cpu/long.toml").read_text()
    for old, new in {'name = "gpt-cpu-long"': f'name = "{NAME}"', "steps = 8000": "steps = 1000000"}.items():
        assert old in text, old
        text = text.replace(old, new)
    job = trimtab.directory / "job.toml"
    job.write_text(text.replace("[trials]\n", f"[trials]\nmax_trials = 0\nlasting_s = {lasting}\n") + "\n")
    job.write_text(job.read_text().replace('"examples/', f'"{ROOT}/examples/').replace('"trainer/', f'"{ROOT}/trainer/'))
    return job


def pin(pids):
    """Each rank to a core of its own, with all its threads."""
    for pid in pids:
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {rank_of(pid)})


class Steps:
    """Of rank 0, as it logs them: (time.time() when it was read, seconds)."""

    def __init__(self, trimtab):
        self._trimtab, self._file, self._begun, self.seen = trimtab, None, "", []

    def read(self):
        if self._file is None:
            found = list(self._trimtab.state.rglob("steps.jsonl"))
            if not found:
                return
            self._file = open(found[0], encoding="utf-8")
        *lines, self._begun = (self._begun + self._file.read()).split("\n")  # The last is not yet written to its end.
        for step in map(json.loads, lines):
            self.seen.append((time.time(), step["step"], step["wall_ns"] / 1e9))

    def median(self, spans):
        inside = [seconds for at, _, seconds in self.seen if any(on + 0.3 < at < (off or at + 1) - 0.3 for on, off in spans)]
        return statistics.median(inside) if inside else None


def told(trimtab):
    return trimtab.get(f"/v1/jobs/{NAME}/report")["drifts"]


def wait(seconds, steps, over=lambda: False):
    """For so long, or until it is `over`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not over():
        time.sleep(min(0.2, max(0.0, end - time.monotonic())))
        steps.read()


def noise(trimtab, planted, steps, options, chance):
    end = time.monotonic() + NOISE_LASTS * options.lasting
    while time.monotonic() < end:
        wait(chance.expovariate(1 / (AWAY * options.lasting)), steps)
        planted.on()
        wait(chance.expovariate(1 / (STAYS * options.lasting)), steps)
        planted.off()
    return told(trimtab)


def drift(trimtab, planted, steps, options, _):
    wait(CALM_LASTS * options.lasting, steps)
    before = told(trimtab)
    if before:
        return before
    planted.on()
    wait(DRIFT_LASTS * options.lasting, steps, lambda: bool(told(trimtab)))
    if told(trimtab):  # Then the hardware is probed, and a cause is named or not.
        wait(60, steps, lambda: any("what has changed" in text for text in trimtab.told(NAME)))
    return told(trimtab)


def run(plant, seed, options):
    """One job; a row of the table."""
    begun = time.monotonic()
    with Installation() as trimtab:
        tune = trimtab.start_tune(write_job(trimtab, options.lasting))
        if tune.wait(timeout=300) != 0:
            raise SystemExit(f"the job did not begin:\n{trimtab.tune_log()}\n{trimtab.all_logs()}")
        ranks = rank_processes(trimtab.directory)
        pin(ranks)
        planted = Planted(next(pid for pid in ranks if rank_of(pid) == 0), options.share, options.by)
        steps = Steps(trimtab)
        try:
            wait(2 * options.lasting, steps)
            drifts = plant(trimtab, planted, steps, options, random.Random(seed))
            end = time.time()
        finally:
            trimtab.run("down", "--state", trimtab.state, check=False)
            planted.close()
    on = planted.spans
    edges = [0, *(edge or end for span in on for edge in span), end]
    calm = steps.median(list(zip(edges[::2], edges[1::2])))
    slow = steps.median(on)
    row = {"plant": plant.__name__, "seed": seed, "calm": calm, "times": slow / calm if slow else None, "spans": len(on),
           "longest": max(((off or end) - begin for begin, off in on), default=0), "took": time.monotonic() - begun, "drifts": drifts}
    if drifts and on and plant is drift:
        noticed = [at for at, step, _ in steps.seen if step >= drifts[0]["noticed_step"]]
        row["after"] = (noticed[0] if noticed else end) - on[0][0]
    print(json.dumps(row), flush=True)
    return row


def verdict(row):
    """(what was wrong, or nothing; what was told)"""
    drifts = row["drifts"]
    if row["plant"] == "noise":
        wrong = "false alarm" if drifts else ""
    else:
        wrong = "missed" if not drifts else "false alarm before" if not row["spans"] else ""
    said = "; ".join(f"{one['after_ms'] / one['before_ms']:.2f} times since step {one['since_step']}, "
                     f"{one['what'] or 'nobody'} named" for one in drifts)
    return wrong, said or "nothing"


def table(rows, options):
    text = "# Planted noise and planted drift on the real example\n\n"
    text += f"Made by `{' '.join(['bench/drift/real_example.py', *sys.argv[1:]])}` on {os.cpu_count()} cores, in "
    text += f"{sum(row['took'] for row in rows) / 60:.0f} minutes. The head of that file says what runs.\n"
    text += f"`trials.lasting_s` is {options.lasting:g} and not 60, since steps take {1000 * statistics.median(row['calm'] for row in rows):.0f} ms. "
    text += f"The same is planted in both: rank 0 keeps {100 * options.share:.0f} % of its core.\n\n"
    for name in ("noise", "drift"):
        mine = [row for row in rows if row["plant"] == name]
        wrong = [what for what, _ in map(verdict, mine) if what]
        text += f"* {name}: {len(mine)} runs, {len(wrong)} wrong" + (f" ({', '.join(wrong)})" if wrong else "")
        after = [row["after"] for row in mine if "after" in row]
        text += f", told after {statistics.mean(after):.0f} s in the mean, {max(after):.0f} s at most.\n" if after else ".\n"
    text += "\n| planted | seed | times as long, while it was there | how often | longest | told after | told | wrong |\n"
    text += "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |\n"
    for row in rows:
        wrong, said = verdict(row)
        times = f"{row['times']:.2f}" if row["times"] else ""
        after = f"{row['after']:.0f} s" if "after" in row else ""
        text += f"| {row['plant']} | {row['seed']} | {times} | {row['spans']} | {row['longest']:.0f} s | {after} | {said} | {wrong} |\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="of each")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--lasting", type=float, default=6, help="trials.lasting_s of the job")
    parser.add_argument("--share", type=float, default=0.5, help="of its core that rank 0 keeps, above 0 and below 1")
    parser.add_argument("--by", choices=("work", "cap"), default="work")
    parser.add_argument("--only", choices=("noise", "drift"))
    parser.add_argument("--out")
    options = parser.parse_args()
    if os.geteuid() != 0 or os.cpu_count() < 2 or not 0 < options.share < 1:
        parser.error("needs root, for cgroups, two cores, and a share between 0 and 1")
    seeds = range(options.first_seed, options.first_seed + options.runs)
    rows = [run(plant, seed, options) for plant in (noise, drift) if options.only in (None, plant.__name__) for seed in seeds]
    text = table(rows, options)
    print(text)
    if options.out:
        pathlib.Path(options.out).write_text(text)


if __name__ == "__main__":
    main()

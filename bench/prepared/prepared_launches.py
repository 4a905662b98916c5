"""What a change of plan takes with prepared launches and without, in turn: makes the table of bench/results/prepared_launches.md.

    TRIMTAB_SOURCES=FOLDER bench/prepared/prepared_launches.py --python "$(scripts/setup --frameworks)/bin/python" [--rounds 3] [--only megatron]

Jobs of two CPU ranks are tuned by restarts: transformers' Trainer (bench/transcripts/clm_trainer.py), Megatron-LM's pretrain_gpt.py with its calls
of CUDA replaced (tests/frameworks/test_megatron_tune.py; FOLDER has its sources), and plain PyTorch (tests/system/prepared_script.py). Jobs with
and without follow each other. Of each launch but the first is told how long it took from the end of the last rank before it to its own first
step of all ranks, by the daemons' logs.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
from datetime import datetime

ROOT = pathlib.Path(__file__).resolve().parents[2]
STARTED = r"(\S+) info \S+ rank 0 of launch (\d+) started"
ENDED = r"(\S+) info \S+ rank \d+ \(pid \d+\) (?:was ended|exited)"
RUNS = r"\[(\S+ \S+)\] \[coordinator\] \[info\] job \S+ ranks: launch (\d+) runs"
TAKEN = r"rank \d+ of launch (\d+) goes on from a prepared process"
READY = r"ready (\d+) modules in ([\d.]+) s of processor time, ([\d.]+ \w+)"
# Steps of a block, for each kind of job: some twenty seconds.
MEASURED = {"plain": 200, "trainer": 60, "megatron": 40}
TRAINER = ("bench/transcripts/clm_trainer.py --per_device_train_batch_size 2 --gradient_accumulation_steps 8 --use_cpu --save_steps 10 "
           "--save_total_limit 2 --logging_steps 10 --report_to none --disable_tqdm True --max_steps 100000 --output_dir")


def typed_job(trimtab, programs, *command):
    """job.toml of a command as it is typed."""
    file = trimtab.directory / "job.toml"
    subprocess.run([programs / "trimtab", "tune", "--dry-run", "--write", file, *command], check=True, capture_output=True, cwd=ROOT, timeout=120)
    return file


def job_of(case, trimtab, programs):
    saved = str(trimtab.directory / "saved")
    if case == "megatron":
        sys.path += [str(ROOT / "tests" / name) for name in ("frameworks",)]
        import test_megatron_tune

        return test_megatron_tune.write_job(trimtab.directory)
    if case == "trainer":
        return typed_job(trimtab, programs, "--knob", "batch=" + ",".join(
            f"arg:--per_device_train_batch_size={one} arg:--gradient_accumulation_steps={16 // one}" for one in (2, 8)),
            "--", "torchrun", "--nproc_per_node", "2", *TRAINER.split(), saved)
    return typed_job(trimtab, programs, "--knob", "arg:--nap=0.05,0.09", "--", "torchrun", "--nproc_per_node", "2",
                     "tests/system/prepared_script.py", "--output-dir", saved, "--max-steps", "100000", "--log", str(trimtab.directory / "log"))


def launches_of(agent, coordinator):
    """By launch: seconds since the last rank of the one before had ended."""
    ends = [datetime.fromisoformat(moment) for moment in re.findall(ENDED, agent)]
    runs = {int(launch): datetime.fromisoformat(moment) for moment, launch in re.findall(RUNS, coordinator)}
    took = {}
    for moment, launch in re.findall(STARTED, agent):
        before = [end for end in ends if end <= datetime.fromisoformat(moment)]
        if before and int(launch) in runs:
            took[int(launch)] = (runs[int(launch)] - max(before)).total_seconds()
    return took


def job_launches(case, prepare, programs):
    """[(seconds, ranks that went on from a prepared process)] of one job's launches, and what preparing took."""
    from installation import Installation

    with Installation() as trimtab:
        file = job_of(case, trimtab, programs)
        text = re.sub(r"(?m)^(max_trials|blocks|measure_steps|after|overhead) = .*\n", "", file.read_text(encoding="utf-8"))
        trials = f"[trials]\nprepare = {str(prepare).lower()}\nmax_trials = 1\nblocks = 1\nmeasure_steps = {MEASURED[case]}\n"
        file.write_text(text.replace("[trials]\n", trials) if "[trials]\n" in text else text + "\n" + trials, encoding="utf-8")
        code = trimtab.start_tune(file, "--allow-restarts", "--overhead", "1").wait(timeout=1800)
        agent = "".join(one.read_text() for one in trimtab.state.glob("agents/*.log"))
        took = launches_of(agent, (trimtab.state / "coordinator.log").read_text())
        taken = [int(launch) for launch in re.findall(TAKEN, agent)]
        ready = re.findall(READY, agent)
        found = [(one, taken.count(launch)) for launch, one in took.items()]
        print(f"{case} prepare={prepare}, exit code {code}: {found} {ready}", file=sys.stderr, flush=True)
        return found, ready


def seconds(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})" if values else "-"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", type=pathlib.Path, default=pathlib.Path("/usr/bin/python3"))
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("megatron", "trainer", "plain"))
    given = parser.parse_args()
    os.environ["TRIMTAB_TEST_PYTHON"] = str(given.python.absolute())
    os.environ["PATH"] = f"{given.python.absolute().parent}:{os.environ['PATH']}"
    sys.path += [str(ROOT / "tests" / name) for name in ("system", "client_python")]
    print("| job | launches | how many | of both ranks prepared | a launch, s: median (least to most) | modules, processor time, memory of one process |\n"
          "| --- | --- | ---: | ---: | ---: | --- |")
    for case in [given.only] if given.only else list(MEASURED):
        runs = {True: [], False: []}
        for number in range(2 * given.rounds):
            runs[number % 2 == 1].append(job_launches(case, number % 2 == 1, given.programs))
        for prepare in (False, True):
            found = [launch for launches, _ in runs[prepare] for launch in launches]
            ready = [one for _, several in runs[prepare] for one in several]
            said = f"{ready[0][0]}, {min(float(one[1]) for one in ready)} to {max(float(one[1]) for one in ready)} s, {ready[0][2]}" if ready else "-"
            print(f"| {case} | {'prepared' if prepare else 'bare'} | {len(found)} | {sum(taken == 2 for _, taken in found)} | "
                  f"{seconds([took for took, _ in found])} | {said} |", flush=True)


if __name__ == "__main__":
    main()

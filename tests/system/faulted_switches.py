"""Switches plans of a real job over and over, with a fault at a drawn moment of every switch, and checks after each that

* the job goes on: every rank trains again, and nobody gave the job up,
* no step is lost, and none is run again beyond the stated bound (step_logs.py),
* all ranks run each step under one plan, on the same samples, with the same loss.

The coordinator, two agents and the ranks are the real programs; between each agent and the coordinator lies a proxy that
knows the messages of a plan change. A fault is drawn from the seed and its number alone, so that one can be replayed:

    /usr/bin/python3 faulted_switches.py --switches 1000 --seed 7
    /usr/bin/python3 faulted_switches.py --seed 7 --first 41 --switches 1
    /usr/bin/python3 faulted_switches.py --switches 60 --seed 7 --kinds cut_ranks,hold_ranks

Full disks need a mount namespace (unshare -m), links between ranks network namespaces and /dev/net/tun, both as root; where
they are forbidden other faults take their place, and it is said.
"""
import argparse
import collections
import os
import statistics
import subprocess
import sys
import time

from rank_network import missing
from switch_faults import BETWEEN_RANKS, KINDS, Fault, Striker
from switched_job import SwitchedJob

RECOVERY_S = 150  # The longest fault, and what it takes to notice it and to launch anew.
BRIEF_S = 2.0  # Of a fault where one of each kind is to take little time.


class Campaign:
    def __init__(self, job, seed, kinds, say=print):
        self.job, self._seed, self._kinds, self._say = job, seed, kinds, say
        self._striker = Striker(job)
        self.seconds = collections.defaultdict(list)  # By kind, from the fault to a job that trains again.
        self.replayed = collections.Counter()
        self.problems = []

    def run(self, first, switches, each_kind, minutes=None):
        """Faults number `first` and following, until so many or for so long. Ends with the first problem."""
        end = time.monotonic() + minutes * 60 if minutes else None
        number = first - 1
        while self.done < switches and not self.problems and not (end and time.monotonic() > end):
            number += 1
            fault = Fault.drawn(self._seed, number, self.job.ranks, self._kinds)
            if not each_kind or (fault.kind not in self.seconds and fault.seconds <= BRIEF_S):
                self._one(fault)
        if not self.problems:
            self._check_that_it_switches_on(number)
        if self.problems:
            self._say(f"fault {number} of seed {self._seed}:\n" + "\n".join(self.problems))

    @property
    def done(self):
        return sum(map(len, self.seconds.values()))

    def _one(self, fault):
        job = self.job
        before = job.logs.replayed
        try:
            struck = self._strike(fault)
            # Until the disk was full a snapshot may be as old as the bound: another fault so soon would be two at once.
            job.wait_until_it_trains(job.bound + 1 if fault.kind == "full_disk" else 2, RECOVERY_S)
        except AssertionError as error:
            self.problems.append(f"{fault}: {error}\n{job.tails()}")
            return
        self.problems += [f"{fault}: {problem}" for problem in job.logs.problems]
        self.seconds[fault.kind].append(time.monotonic() - struck)
        self.replayed[fault.kind] += job.logs.replayed - before
        self._say(f"{fault}: trains again after {self.seconds[fault.kind][-1]:.2f} s, "
                  f"{job.logs.replayed - before} steps again")

    def _check_that_it_switches_on(self, number):
        """After the last fault too, on every node: the others were followed by a switch that came to the next one's moment."""
        try:
            for node in range(self.job.ranks):
                self._strike(Fault(number + 1, "hold_link", "active", "after", node, 0.0))
        except AssertionError as error:
            self.problems.append(f"after the last fault: {error}\n{self.job.tails()}")

    def _strike(self, fault):
        """A job that has tuned itself to an end switches no more: the next run of it does."""
        job, struck = self.job, None
        while struck is None:
            job.keep_switching()
            struck = self._striker.strike(fault, lambda: job.is_tuned() or job.lost())
            if struck is None and job.lost():
                raise AssertionError(job.lost())
        return struck

    def table(self):
        rows = [f"| {kind} | {len(took)} | {statistics.median(took):.2f} | {max(took):.2f} | {self.replayed[kind]} |"
                for kind, took in sorted(self.seconds.items())]
        everything = [second for took in self.seconds.values() for second in took]
        rows.append(f"| all | {len(everything)} | {statistics.median(everything):.2f} | {max(everything):.2f} | "
                    f"{sum(self.replayed.values())} |")
        return "\n".join(["| fault | switches | median s | longest s | steps run again |",
                          "| --- | ---: | ---: | ---: | ---: |", *rows])


def possible(kinds, job):
    """Those of the kinds that can be done here; why the others cannot is said."""
    impossible = set()
    if job.disk is None:
        impossible.add("full_disk")
        print("no mount namespace: no full disks", flush=True)
    if job.network is None:
        impossible.update(BETWEEN_RANKS)
        print(f"{missing()}: no cuts between ranks", flush=True)
    return [kind for kind in kinds if kind not in impossible]


def known_kinds(text):
    kinds = text.split(",")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no fault '{unknown[0]}'; there are {', '.join(KINDS)}")
    return kinds


def in_mount_namespace(words):
    """Run this program again in a mount namespace of its own, if that is allowed; mounts go with it."""
    if os.environ.get("TRIMTAB_TEST_MOUNTS") or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        return
    os.environ["TRIMTAB_TEST_MOUNTS"] = "1"
    os.execvp("unshare", ["unshare", "-m", sys.executable, *words])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--switches", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--each-kind", action="store_true", help="one brief fault of each kind")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--minutes", type=float, help="stop after so long")
    parser.add_argument("--ranks", type=int, default=2, choices=(2, 4))
    parser.add_argument("--kinds", type=known_kinds, default=list(KINDS), metavar="KIND,...", help="faults to draw from; a replay "
                        "needs the same")
    options = parser.parse_args()
    in_mount_namespace(sys.argv)
    print(f"seed {options.seed}; faults: {', '.join(options.kinds)}", flush=True)
    began = time.monotonic()
    with SwitchedJob(options.ranks) as job:
        kinds = possible(options.kinds, job)
        if not kinds:
            print("none of these faults can be made here")
            return 0
        campaign = Campaign(job, options.seed, kinds, say=lambda text: print(text, flush=True))
        campaign.run(options.first, len(kinds) if options.each_kind else options.switches, options.each_kind, options.minutes)
        took = time.monotonic() - began
        if campaign.done:
            print(campaign.table())
        print(f"\n{campaign.done} faulted switches in {took:.0f} s, {job.logs.changes} changes of plan ({job.logs.split_changes} "
              f"from or to tensor-parallel ranks) and "
              f"{job.logs.lines} steps of {options.ranks} ranks in {job.runs} runs of the job, "
              f"{job.launches()} launches; at most {job.logs.most_replayed} steps run again at once "
              f"({job.bound} may be); {len(campaign.problems)} problems")
    return 1 if campaign.problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""Prepared launches of a job that trials restart, with real PyTorch on two ranks: to the program they are bare ones, and whatever is killed,
nothing of them stays."""
import json
import os
import pathlib
import re
import subprocess
import unittest

from installation import ROOT, TRIMTAB, Installation, is_dead, kill_hard, wait_until

SCRIPT = ROOT / "tests" / "system" / "prepared_script.py"
STEPS = 3000
OF_LAUNCH = {"TRIMTAB_LAUNCH", "TRIMTAB_VARIANT", "TRIMTAB_PLAN", "TRIMTAB_EPOCH", "MASTER_PORT"}
TAKEN = r"rank (\d+) of launch (\d+) goes on from a prepared process"


def held(installation):
    """Pids of the processes that wait for a launch."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if b"TRIMTAB_HELD=" in environment and os.fsencode(installation.state) in environment and not is_dead(int(entry.name)):
            found.append(int(entry.name))
    return found


def agent_log(installation):
    return "".join(log.read_text(encoding="utf-8") for log in sorted(installation.state.glob("agents/*.log")))


class Prepared(unittest.TestCase):
    def tuned(self, trimtab, prepare):
        file = trimtab.directory / "job.toml"
        command = [str(TRIMTAB), "tune", "--knob", "arg:--nap=0.02,0.09", "--dry-run", "--write", str(file), "--", "torchrun", "--nproc_per_node", "2",
                   str(SCRIPT), "--output-dir", str(trimtab.directory / "saved"), "--max-steps", str(STEPS), "--log",
                   str(trimtab.directory / "log")]
        subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=trimtab.directory)
        with open(file, "a", encoding="utf-8") as text:
            text.write(f"\n[trials]\nprepare = {str(prepare).lower()}\n")
        return trimtab.start_tune(file, "--allow-restarts", "--overhead", "1")

    def lines(self, trimtab, kind, rank):
        return (trimtab.directory / f"log-{kind}-{rank}").read_text(encoding="utf-8").splitlines()

    def losses(self, trimtab, rank):
        """Of each step; it fails where a step that was trained twice has learnt two things."""
        learnt = {}
        for line in self.lines(trimtab, "losses", rank):
            step, loss = line.split()
            self.assertEqual(learnt.setdefault(int(step), loss), loss, f"step {step}")
        return learnt

    def comparable(self, fact):
        """What must be the same in any launch of the job."""
        kept = {name: value for name, value in fact.items() if name not in ("argv", "orig_argv")}
        kept["environment"] = {name: value for name, value in fact["environment"].items() if name not in OF_LAUNCH}
        kept["opened"] = [re.sub(r"^(pipe|socket|anon_inode):.*|.*/rank-\d+\.log$", r"\1", one) for one in fact["opened"] if "/proc/" not in one]
        return kept

    def test_a_prepared_launch_is_a_bare_one_to_its_program(self):
        learnt = []
        for prepare in (True, False):
            with Installation() as trimtab:
                tune = self.tuned(trimtab, prepare)
                self.assertEqual(tune.wait(timeout=600), 0, trimtab.tune_log() + trimtab.all_logs())
                log = agent_log(trimtab)
                taken = {(int(rank), int(launch)) for rank, launch in re.findall(TAKEN, log)}
                self.assertEqual(bool(taken), prepare, log)
                self.assertIn(trimtab.report()["trials"][0]["state"], ("adopted", "rejected"), trimtab.tune_log())
                learnt.append([self.losses(trimtab, rank) for rank in (0, 1)])
                for rank in (0, 1):
                    facts = [json.loads(line) for line in self.lines(trimtab, "facts", rank)]
                    first = facts[0]
                    self.assertNotIn((rank, int(first["environment"]["TRIMTAB_LAUNCH"])), taken)
                    self.assertFalse([one for fact in facts for one in fact["opened"] if "/dev/nvidia" in one])
                    self.assertFalse(any(fact["cuda"] for fact in facts))
                    for fact in facts[1:]:
                        self.assertEqual(self.comparable(fact), self.comparable(first))
                        self.assertEqual(fact["argv"][0], first["argv"][0])
                        self.assertEqual(fact["argv"][1:], fact["orig_argv"][-len(fact["argv"][1:]):])
                if prepare:
                    # All but the first launch, and those whose rank had not trained for long enough.
                    launches = {int(json.loads(line)["environment"]["TRIMTAB_LAUNCH"]) for line in self.lines(trimtab, "facts", 0)}
                    self.assertGreaterEqual(len(taken), len(launches), (taken, launches))
                trimtab.run("down", "--state", str(trimtab.state), check=False)
                wait_until(lambda: not held(trimtab), "the end of all that was prepared", 20)
        for rank in (0, 1):
            both = learnt[0][rank].keys() & learnt[1][rank].keys()
            self.assertGreater(len(both), 50)  # steps that both told
            self.assertEqual({step: learnt[0][rank][step] for step in both}, {step: learnt[1][rank][step] for step in both})

    def test_whatever_is_killed_nothing_prepared_stays(self):
        with Installation() as trimtab:
            tune = self.tuned(trimtab, True)
            self.addCleanup(tune.wait)
            waiting = wait_until(lambda: len(held(trimtab)) == 4 and held(trimtab), "four prepared processes", 120)
            # One of them: a launch goes on, bare.
            kill_hard(waiting[0])
            wait_until(lambda: ", was ended by signal 9" in agent_log(trimtab), "the agent's word of it", 20)
            # The agent, while processes import or wait: they go with it, and the next agent prepares launches that it starts itself.
            waiting = wait_until(lambda: held(trimtab), "a prepared process", 60)
            trimtab.restart_hard("agent")
            wait_until(lambda: all(map(is_dead, waiting)), "the end of what was prepared", 20)
            wait_until(lambda: re.search(r"launch [3-9] runs", "\n".join(trimtab.told(self.job(trimtab)))), "a later launch", 240)
            trimtab.run("down", "--state", str(trimtab.state), check=False)
            for agent in trimtab.restarted:  # Nobody else knows of it.
                agent.terminate()
                agent.wait(timeout=30)
            wait_until(lambda: not held(trimtab), "the end of all that was prepared", 20)

    def job(self, trimtab):
        return trimtab.get("/v1/jobs")["jobs"][0]["name"]


if __name__ == "__main__":
    unittest.main()

"""packaging/slurm on a real Slurm: a job tuned inside one allocation, and an agent beside every job that asks for it."""
import concurrent.futures
import json
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.request

from cluster import BUILD, ROOT, programs, wait_until
from local_slurm import LocalSlurm, missing_programs
from test_restart import checkpoint_step

PACKAGING = ROOT / "packaging" / "slurm"


@unittest.skipIf(missing_programs(), missing_programs())
class Allocation(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-allocation-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def write_job(self, steps):
        """The torchrun example on two nodes; only watched, so that it is short."""
        source = ROOT / "examples" / "torchrun-ddp"
        text = (source / "job.toml").read_text()
        for key, value in (("mode", '"observe"'), ("checkpoint", f'"{self.directory}/saved"'), ("steps", steps),
                           ("initial_plan", f'"{source}/initial.json"'), ("working_directory", f'"{ROOT}"')):
            text, count = re.subn(rf"^{key} = .*$", lambda _: f"{key} = {value}", text, flags=re.MULTILINE)
            self.assertEqual(count, 1, key)
        (self.directory / "job.toml").write_text(text)
        return self.directory / "job.toml"

    def submit(self, slurm, job):
        output = self.directory / "batch.log"
        return int(slurm.run("sbatch", "--parsable", "--nodes=2", "--time=20", f"--output={output}", "--open-mode=append",
                             "--chdir", str(ROOT), str(PACKAGING / "tune.sbatch"), str(job), str(self.directory / "folder")).strip())

    def state(self, slurm, job):
        return re.search(r"JobState=(\S+)", slurm.run("scontrol", "show", "job", str(job), "--oneliner")).group(1)

    def logs(self):
        return "\n".join(f"--- {file}\n{file.read_text(errors='replace')[-3000:]}"
                         for file in [*self.directory.glob("*.log"), *self.directory.glob("folder/*.log")])

    def test_a_job_goes_on_in_the_next_allocation_after_its_warning(self):
        slurm = LocalSlurm(self.directory / "slurm", nodes=2)
        slurm.environment = programs(slurm.environment)
        with slurm:
            job = self.write_job(steps=150)
            first = self.submit(slurm, job)
            wait_until(lambda: "launch 1 runs" in self.logs(), "the first launch", 200)
            # What Slurm does three minutes before the time limit.
            slurm.run("scancel", "--batch", "--signal=TERM", str(first))
            wait_until(lambda: self.state(slurm, first) != "RUNNING", "the first allocation's end", 120)
            self.assertEqual(self.state(slurm, first), "COMPLETED", self.logs())
            saved = self.directory / "saved" / "state.pt"
            self.assertTrue(saved.exists(), self.logs())
            step = checkpoint_step(saved)
            self.assertLess(step, 150)

            second = self.submit(slurm, job)
            wait_until(lambda: self.state(slurm, second) not in ("PENDING", "RUNNING"), "the second allocation's end", 400)
            self.assertEqual(self.state(slurm, second), "COMPLETED", self.logs())
            self.assertEqual(checkpoint_step(saved), 150, self.logs())
            self.assertIn("going on from phase", self.logs())

    def start_coordinator(self):
        port = self.directory / "port"
        coordinator = subprocess.Popen([str(BUILD / "bin" / "trimtab-coordinator"), "--listen", "127.0.0.1:0", "--state",
                                        str(self.directory / "state"), "--port-file", str(port)],
                                       stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.addCleanup(coordinator.wait)
        self.addCleanup(coordinator.terminate)
        wait_until(lambda: port.exists() and port.read_text().strip(), "the coordinator's port", 20)
        return int(port.read_text())

    @staticmethod
    def connected(port):
        """Whose jobs each node that is there takes."""
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/nodes", timeout=5) as answer:
            return {node["name"]: node["tenant"] for node in json.load(answer)["nodes"] if node["state"] == "connected"}

    def test_the_prolog_starts_an_agent_beside_a_job_and_the_epilog_stops_it(self):
        root = self.directory / "root"
        for folder in ("etc/trimtab", "run", "var/log"):
            (root / folder).mkdir(parents=True)
        port = self.start_coordinator()
        (root / "etc" / "trimtab" / "agent.toml").write_text(f'coordinator = "127.0.0.1:{port}"\nmetrics_port = 0\ndevices = 1\n')
        hooks = {}
        for name in ("prolog", "epilog", "task-prolog"):
            # Slurm gives its hooks an empty environment: where this installation is stands in front.
            hooks[name] = self.directory / name
            hooks[name].write_text(f"#!/bin/bash\nexport TRIMTAB_SLURM_ROOT={root} TRIMTAB_SLURM_LOG={root}/var/log/hooks.log "
                                   f"TRIMTAB_AGENT={BUILD}/bin/trimtab-agent\nexec {PACKAGING}/{name}\n")
            hooks[name].chmod(0o755)
        more = f"Prolog={hooks['prolog']}\nEpilog={hooks['epilog']}\nTaskProlog={hooks['task-prolog']}\nPrologFlags=Alloc"
        with LocalSlurm(self.directory / "slurm", nodes=2, more=more) as slurm:
            show = f"until [ -e {self.directory}/seen ]; do sleep 0.1; done; echo socket=$TRIMTAB_SOCKET; test -S \"$TRIMTAB_SOCKET\" && echo there"
            with concurrent.futures.ThreadPoolExecutor() as pool:
                running = pool.submit(slurm.run, "srun", "--comment=trimtab", "-N2", "-n2", "sh", "-c", show)
                wait_until(lambda: running.done() or self.connected(port).keys() == set(slurm.nodes), "both agents' joining", 30)
                self.assertEqual(set(self.connected(port).values()), {pwd.getpwuid(os.getuid()).pw_name})
                (self.directory / "seen").touch()
                said = running.result()
            self.assertEqual(said.count("there"), 2, said + (root / "var" / "log" / "hooks.log").read_text())
            self.assertEqual(len(set(re.findall(r"socket=(\S+)", said))), 2, said)
            logs = root / "var" / "log"

            def ended():
                return [log for log in logs.glob("trimtab-agent-*.log") if "stops on signal 15" in log.read_text()]

            wait_until(lambda: len(ended()) == 2, "the end of both agents", 30)
            wait_until(lambda: not list((root / "run" / "trimtab-slurm").iterdir()), "empty places", 10)
            user = pwd.getpwuid(os.getuid()).pw_name
            for node in slurm.nodes:
                self.assertTrue((root / "var/lib/trimtab/slurm" / f"{user}-{node}" / "agent.db").exists(), node)
            agents = subprocess.run(["pgrep", "-f", f"trimtab-agent --config {root}"], capture_output=True, text=True)
            self.assertEqual(agents.stdout, "")
            # A job that does not ask has none.
            self.assertNotIn("there", slurm.run("srun", "-N1", "-n1", "sh", "-c", show, check=False))
            # A hook that failed would have drained its node.
            wait_until(lambda: {slurm.node_state(node) for node in slurm.nodes} == {"IDLE"}, "two idle nodes", 20)


if __name__ == "__main__":
    unittest.main()

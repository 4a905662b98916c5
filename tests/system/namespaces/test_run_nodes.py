"""`trimtab run` on two nodes that share a folder: one coordinator under TLS, an agent on each node, one job."""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from installation import TRIMTAB, is_dead, wait_until  # noqa: E402
from node_network import Condition, Namespace, Switch, missing  # noqa: E402

WAITS = "import os, sys; print(os.environ.get('TRIMTAB_JOB', 'bare'), os.environ.get('TRIMTAB_SOCKET'), flush=True); sys.stdin.read()"


class RunNode:
    """A node with a network, a host name and a temporary folder of its own."""

    def __init__(self, number, switch, directory):
        self.name = f"n{number}"
        self.number = number
        self.temporary = directory / f"tmp-{self.name}"
        self.temporary.mkdir()
        self.namespace = Namespace()
        self.port = switch.plug(self.namespace.interface())
        self.namespace.ip("link", "set", "lo", "up")
        self.namespace.ip("link", "set", "eth0", "up")
        self.namespace.ip("address", "add", f"10.77.0.{10 + number}/24", "dev", "eth0")

    def start(self, flags, environment, directory):
        """A run whose command waits for the end of its input."""
        here = {name: value for name, value in os.environ.items() if not name.startswith(("TRIMTAB_STATE", "SLURM", "XDG_STATE"))}
        words = ["unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', self.name, str(TRIMTAB), "run", *map(str, flags), "--",
                 sys.executable, "-c", WAITS]
        with self.namespace.entered():
            return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    cwd=directory, env={**here, "TMPDIR": str(self.temporary), **environment})

    def ups(self):
        """What is up on this node: up.json of each state directory."""
        return [json.loads(file.read_text()) for file in self.temporary.rglob("up.json")]

    def status(self):
        [file] = self.temporary.rglob("up.json")
        with self.namespace.entered():
            done = subprocess.run([str(TRIMTAB), "status", "--json", "--state", str(file.parent)], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@unittest.skipIf(missing(), missing())
class RunOnNodes(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-run-nodes-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        switch = Switch(1)
        self.addCleanup(switch.close)
        self.nodes = [RunNode(number, switch, self.directory) for number in range(2)]
        for node in self.nodes:
            self.addCleanup(node.namespace.close)

    def start(self, node, *flags, **environment):
        run = node.start(flags, environment, self.directory)
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        return run

    def srun(self, node, rank, *flags):
        return self.start(node, *flags, SLURM_JOB_ID="77", SLURM_STEP_ID="0", SLURM_NNODES="2", SLURM_STEP_NUM_NODES="2",
                          SLURM_NODEID=str(node.number), SLURMD_NODENAME=node.name, SLURM_PROCID=str(rank), SLURM_NTASKS="4")

    def first_line(self, run):
        line = run.stdout.readline().split()
        if not line:
            raise AssertionError(run.stderr.read())
        return line

    def finish(self, runs):
        daemons = [process["pid"] for node in self.nodes for up in node.ups() for process in up["processes"]]
        for run in reversed(runs):
            run.communicate(timeout=30)
            self.assertEqual(run.returncode, 0)
        wait_until(lambda: all(map(is_dead, daemons)), "the daemons' end", 30)

    def test_a_step_of_slurm_is_one_job_under_one_coordinator(self):
        runs = [self.srun(self.nodes[rank // 2], rank, "--name", "wide") for rank in range(4)]
        told = [self.first_line(run) for run in runs]
        self.assertEqual([job for job, _ in told], ["wide"] * 4)
        self.assertEqual([told[0][1], told[2][1]], [told[1][1], told[3][1]])
        for node in self.nodes:
            members = {one["name"]: one["state"] for one in node.status()["nodes"]}
            self.assertEqual(members, {"n0": "connected", "n1": "connected"})
        folder = self.directory / "trimtab-out" / ".nodes-77.0"
        for place in [folder, *folder.iterdir()]:
            self.assertEqual(stat.S_IMODE(place.stat().st_mode) & 0o077, 0, place)
        self.finish(runs)

    def test_nodes_that_are_started_by_hand_share_a_folder_that_is_named(self):
        shared = self.directory / "shared folder"
        runs = [self.start(node, "--shared", shared, "--name", f"by-hand-{node.name}") for node in self.nodes]
        jobs = {self.first_line(run)[0] for run in runs}
        self.assertEqual(len(jobs), 1, jobs)
        self.assertEqual({one["name"] for one in self.nodes[1].status()["nodes"]}, {"n0", "n1"})
        self.finish(runs)
        # It can be used again.
        again = [self.start(node, "--shared", shared, "--name", "again") for node in reversed(self.nodes)]
        self.assertEqual([self.first_line(run)[0] for run in again], ["again"] * 2)
        self.finish(again[::-1])

    def bare(self, run, *words):
        self.assertEqual(self.first_line(run)[0], "bare")
        _, said = run.communicate(timeout=30)
        self.assertEqual(run.returncode, 0)
        for word in words:
            self.assertIn(word, said)

    def test_a_node_that_does_not_reach_the_first_says_so_and_runs_bare(self):
        first = self.srun(self.nodes[0], 0)
        self.first_line(first)
        self.nodes[1].port.up.condition = self.nodes[1].port.down.condition = Condition(cut=True)
        self.bare(self.srun(self.nodes[1], 2), "n0", "10.77.0.10", "the command runs without Trimtab")
        self.finish([first])

    def test_without_a_folder_that_both_see_the_second_says_what_is_missing(self):
        first = self.srun(self.nodes[0], 0, "--shared", self.directory / "mine")
        self.first_line(first)
        self.bare(self.srun(self.nodes[1], 2, "--shared", self.directory / "other"), "other", "all nodes must see")
        self.bare(self.srun(self.nodes[1], 2, "--shared", "/proc/no/folder"), "/proc/no/folder", "--shared DIR")
        self.finish([first])


if __name__ == "__main__":
    unittest.main()

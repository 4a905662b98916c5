"""Two teams share costs: the real program pushes to a real coordinator, pulls from it, and one contributor's costs are removed."""

import http.client
import json
import pathlib
import subprocess
import tempfile
import unittest

from installation import BUILD, TRIMTAB, wait_until

# all_reduce_perf's output (-J), shortened to what is read.
RUN = {
    "version": 3,
    "args": ["all_reduce_perf"],
    "env": ["NCCL_ALGO=Ring"],
    "nccl_version": 22809,
    "config": {
        "nthreads": 1,
        "ngpus": 2,
        "aggregated_iterations": 1,
        "graph": 0,
        "devices": [{"group": 0, "hostname": "node0", "device_info": "NVIDIA H100"}],
    },
    "results": [{"size": 1 << 20, "type": "float", "redop": "sum", "out_of_place": {"time": 40.5, "nwrong": 0}}],
    "out_of_bounds": {"count": 0, "okay": "true"},
}


class SharedCosts(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="trimtab-costs-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        for name, role in (("eva", "costs"), ("chief", "operate")):
            self.run_trimtab("token", "add", name, "--role", role, "--tenant", "*", "--tokens", self.path("tokens"), "-o",
                             self.path(f"{name}.token"))
        with open(self.path("log"), "w") as log:
            self.coordinator = subprocess.Popen(
                [str(BUILD / "bin" / "trimtab-coordinator"), "--listen", "127.0.0.1:0", "--state", self.path("state"), "--port-file",
                 self.path("port"), "--tokens", self.path("tokens")], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(self.end)
        self.port = wait_until(self.read_port, "the coordinator's port", 20)

    def end(self):
        self.coordinator.terminate()
        self.coordinator.wait(timeout=30)

    def path(self, name):
        return str(self.directory / name)

    def read_port(self):
        file = self.directory / "port"
        return file.exists() and file.read_text().strip() and int(file.read_text())

    def run_trimtab(self, *arguments, code=0):
        done = subprocess.run([str(TRIMTAB), *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, f"{arguments}:\n{done.stdout}\n{done.stderr}")
        return done

    def ask(self, who, *arguments, code=0):
        return self.run_trimtab(*arguments, "--coordinator", f"127.0.0.1:{self.port}", "--state", self.path("none"), "--token-file",
                                self.path(f"{who}.token"), code=code)

    def database(self, name, time):
        run = json.loads(json.dumps(RUN))
        run["results"][0]["out_of_place"]["time"] = time
        (self.directory / "run.json").write_text(json.dumps(run))
        self.run_trimtab("db", "import", "--format", "nccl-tests", self.path("run.json"), self.path(name))
        return self.path(name)

    def exported(self, name):
        return json.loads(self.run_trimtab("db", "export", self.path(name), "--to", "json").stdout)["costs"]

    def test_what_is_pushed_is_pulled_by_others_and_removed(self):
        file = self.database("theirs.db", 40.5)
        first = json.loads(self.ask("eva", "db", "push", file, "--json").stdout)
        self.assertEqual((first["contributor"], first["new"], first["refused"]), ("eva", 1, []))
        again = json.loads(self.ask("eva", "db", "push", file, "--json").stdout)
        self.assertEqual((again["new"], again["equal"]), (0, 1))
        self.assertIn("equal to what is there", self.ask("eva", "db", "push", file).stdout)
        # Another team has a measurement of its own, and takes over what was contributed beside it.
        self.database("ours.db", 30.0)
        pulled = json.loads(self.ask("eva", "db", "pull", self.path("ours.db"), "--json").stdout)
        self.assertEqual(pulled["contributed"], {"new": 1, "renewed": 0, "equal": 0, "older": 0})
        sources = sorted((cost["source"], cost["mean"]) for cost in self.exported("ours.db"))
        self.assertEqual(sources, [("import:contributor/eva/nccl-tests", 40500), ("import:nccl-tests", 30000)])
        pulled = json.loads(self.ask("eva", "db", "pull", self.path("ours.db"), "--json").stdout)
        self.assertEqual(pulled["contributed"]["equal"], 1)
        self.assertIn("eva", self.run_trimtab("db", "show", self.path("ours.db")).stdout)
        # Who has pulled it cannot contribute it as her own.
        pushed = json.loads(self.ask("chief", "db", "push", self.path("ours.db"), "--json").stdout)
        self.assertEqual(pushed["new"], 1)
        self.assertEqual([one["costs"] for one in pushed["refused"]], [1])
        self.assertIn('contributor "eva"', pushed["refused"][0]["reason"])
        # Only who operates removes; a file is its owner's.
        self.assertIn("this needs the role operate", self.ask("eva", "db", "remove", "--contributor", "eva", code=2).stderr)
        removed = self.ask("chief", "db", "remove", "--contributor", "eva")
        self.assertIn("removed 1 cost of contributor eva", removed.stdout)
        self.ask("chief", "db", "remove", "--contributor", "eva", code=1)
        self.assertIn("remove costs of contributor eva", self.ask("chief", "audit").stdout)
        self.run_trimtab("db", "remove", self.path("ours.db"), "--contributor", "eva")
        self.assertEqual([cost["source"] for cost in self.exported("ours.db")], ["import:nccl-tests"])

    def test_a_file_that_is_none_and_a_role_that_may_not_are_refused(self):
        (self.directory / "text").write_text("no database")
        for verb in ("push", "pull"):
            self.assertIn("text", self.ask("eva", "db", verb, self.path("text"), code=2).stderr)
        self.assertEqual((self.directory / "text").read_text(), "no database")
        self.assertIn("this needs the role view", self.ask("eva", "status", code=2).stderr)
        file = self.database("theirs.db", 40.5)
        self.assertIn("begins with 'none'", self.ask("eva", "db", "push", file, "--hardware", "none", code=2).stderr)
        token = (self.directory / "eva.token").read_text().strip()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("POST", "/v1/costs", body="x" * (2 << 20), headers={"Authorization": f"Bearer {token}"})
        self.addCleanup(connection.close)
        self.assertEqual(connection.getresponse().status, 413)
        self.ask("eva", "db", "push", file)


if __name__ == "__main__":
    unittest.main()

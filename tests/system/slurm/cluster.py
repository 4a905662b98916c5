"""Trimtab on a local Slurm: a coordinator, an agent named after each of its nodes, and a job from examples/slurm-ddp."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from local_slurm import LocalSlurm

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from installation import BUILD, ROOT, wait_until  # noqa: E402

EXAMPLE = ROOT / "examples" / "slurm-ddp"
JOB = "slurm-ddp"


def programs(environment):
    """Where srun's processes find Python's modules is in the job; where the daemons are is here."""
    return {**environment, "PATH": f"{BUILD / 'bin'}:{environment['PATH']}"}


class Cluster:
    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-slurm-"))
        self.slurm = LocalSlurm(self.directory / "slurm", nodes=2)
        self.processes = []

    def __enter__(self):
        self.slurm.__enter__()
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind, value, trace):
        self.slurm.run("scancel", "--user=root", check=False)
        for process in reversed(self.processes):
            process.terminate()
            process.wait(timeout=60)
        self.slurm.stop()
        if kind is not None and os.environ.get("TRIMTAB_KEEP"):
            print(f"kept: {self.directory}")
            return
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self):
        port_file = self.directory / "port"
        self.start("coordinator", "trimtab-coordinator", "--listen", "127.0.0.1:0", "--state", self.directory / "state",
                   "--port-file", port_file)
        wait_until(lambda: port_file.exists() and port_file.read_text().strip(), "the coordinator's port", 20)
        self.port = int(port_file.read_text())
        for node in self.slurm.nodes:
            self.start_agent(node)

    def start_agent(self, node):
        return self.start(f"agent-{node}", "trimtab-agent", "--coordinator", f"127.0.0.1:{self.port}", "--node", node,
                          "--socket", self.directory / f"{node}.sock", "--state", self.directory / f"agent-{node}",
                          "--devices", "1", "--metrics-port", "0", "--stop-ranks-on-exit")

    def start(self, name, *command):
        with open(self.directory / f"{name}.log", "a") as log:
            process = subprocess.Popen([str(BUILD / "bin" / command[0]), *map(str, command[1:])], env=programs(self.slurm.environment),
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=ROOT)
        self.processes.append(process)
        return process

    def write_job(self, **changes):
        """The example with fewer steps to a block; Slurm's nodes are one machine, so each agent has a socket of its own."""
        script = (EXAMPLE / "train.sbatch").read_text().replace("/tmp/", f"{self.directory}/")
        script = script.replace("-m trimtab.slot", f"-m trimtab.slot --socket '{self.directory}/{{node}}.sock'")
        (self.directory / "train.sbatch").write_text(script)
        text = (EXAMPLE / "job.toml").read_text()
        text = text.replace("examples/slurm-ddp/train.sbatch", str(self.directory / "train.sbatch"))
        text = text.replace('"300"', '"15", "--poll", "1", "--lead", "20"')
        chosen = {"checkpoint": f'"{self.directory}/saved"', "initial_plan": f'"{ROOT}/examples/torchrun-ddp/initial.json"',
                  "working_directory": f'"{ROOT}"', "steps": 1000000, "walltime_s": 1000000, "warmup_steps": 3, "measure_steps": 6,
                  "max_trials": 1, "overhead": 1, "deadline_s": '40\nafter = "stop"\nloss_check_steps = 0', **changes}
        for key, value in chosen.items():
            text, count = re.subn(rf"^{key} = .*$", lambda _: f"{key} = {value}", text, flags=re.MULTILINE)
            assert count == 1, key
        path = self.directory / "job.toml"
        path.write_text(text)
        return path

    def tune(self, job):
        return self.start("tune", "trimtab", "tune", "--job", job, "--coordinator", f"127.0.0.1:{self.port}", "--out",
                          self.directory / "out")

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as reply:
            return json.load(reply)

    def post(self, path):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=b"", method="POST")
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)

    def events(self):
        """What people are told of the job, in order; nothing before it is there."""
        try:
            return [event["text"] for event in self.get(f"/v1/jobs/{JOB}/events?after=0")["events"]]
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return []

    def wait_for(self, pattern, seconds, after=0):
        """The number of the first event from `after` on that matches."""
        def found():
            return next((i + 1 for i, text in enumerate(self.events()) if i >= after and re.search(pattern, text, re.DOTALL)), None)
        return wait_until(found, f"an event like '{pattern}'", seconds)

    def launches(self, variant=""):
        """Ids of Slurm jobs that run as launches of the job itself, or of a variant."""
        rows = self.slurm.run("squeue", "--noheader", "--states=RUNNING", "--format=%i %j").split("\n")
        pairs = [row.split() for row in rows if row.strip()]
        return [int(number) for number, name in pairs
                if name.startswith(f"trimtab.{JOB}.") and name.endswith(f".{variant or 'job'}")]

    def kill_launcher(self):
        """kill -9; its guardian, a process like it in a session of its own, lives on."""
        pids = [int(entry.name) for entry in pathlib.Path("/proc").iterdir()
                if entry.name.isdigit() and self._is_launcher(entry)]
        assert len(pids) == 1, pids
        os.kill(pids[0], signal.SIGKILL)

    def _is_launcher(self, entry):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            return False
        mine = b"trimtab.slurm" in words and str(self.directory / "train.sbatch").encode() in words
        return mine and int(parent) in [process.pid for process in self.processes]

    def slurm_names(self):
        """Of all Slurm jobs that Slurm remembers."""
        return re.findall(r"JobName=(\S+)", self.slurm.run("scontrol", "show", "jobs", "--oneliner", check=False))

    def report(self):
        return json.loads((self.directory / "out" / "report.json").read_text())

    def logs(self):
        files = sorted([*self.directory.glob("*.log"), *self.directory.glob("agent-*/**/*.log")])
        told = "\n".join(f"--- {file.relative_to(self.directory)}\n{file.read_text(errors='replace')[-4000:]}" for file in files)
        return told + self.slurm.logs()

"""A throw-away Trimtab of real processes for one test: its own state directory, ports and job."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TRIMTAB_BUILD", ROOT / "build" / "release"))
TRIMTAB = BUILD / "bin" / "trimtab"
os.environ["TRIMTAB_RUN_AS_ROOT"] = "true"  # of agents, where root runs the tests
# Commands that load no PyTorch: costs are made up, and ranks sleep in a step.
PLAIN = {command: ["/usr/bin/python3", "tests/system/histories/rank_job.py", command, *words] for command, words in {
    "describe": [],
    "benchmark": ["--requests", "{requests}"],
    "train": ["--plan", "{plan}", "--rank", "{rank}", "--world-size", "{world_size}", "--rendezvous", "{rendezvous}", "--steps", "{steps}",
              "--log", "@DIR@"],
}.items()}


def wait_until(condition, what, seconds):
    """Polls `condition` until it gives something true; fails naming `what`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Installation:
    """`with Installation() as trimtab:` gives a state directory that is brought down and removed at the end."""

    def __init__(self, devices=2):
        self.devices = devices
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-test-"))
        self.state = self.directory / "state"
        self.out = self.directory / "out"
        self.restarted = []

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.run("down", "--state", str(self.state), check=False)
        for process in self.restarted:
            process.terminate()
            process.wait(timeout=30)
        if kind is not None and os.environ.get("TRIMTAB_KEEP"):
            print(f"kept: {self.directory}")
            return
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, *arguments, check=True, timeout=300):
        done = subprocess.run(
            [str(TRIMTAB), *map(str, arguments)], capture_output=True, text=True, timeout=timeout, cwd=ROOT
        )
        if check and done.returncode != 0:
            raise AssertionError(f"trimtab {' '.join(map(str, arguments))} gave {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def up(self):
        self.run("up", "--state", self.state, "--devices", self.devices, "--port", "0")
        return self.processes()

    def processes(self):
        """What up.json says runs: {"coordinator": pid, "agent": pid, "port": port}."""
        found = json.loads((self.state / "up.json").read_text())
        pids = {process["name"].split()[0]: process["pid"] for process in found["processes"]}
        return {**pids, "port": found["port"]}

    def restart_hard(self, daemon):
        """kill -9 of a daemon, and the same command again, as a service manager would do it."""
        running = self.processes()
        words = command_line(running[daemon])
        # The coordinator was given any free port; the agent knows the one that it got.
        words = [f"127.0.0.1:{running['port']}" if word == "127.0.0.1:0" else word for word in words]
        kill_hard(running[daemon])
        wait_until(lambda: not pathlib.Path(f"/proc/{running[daemon]}/fd/0").exists(), f"the {daemon}'s end", 10)
        with open(self.directory / f"{daemon}-again.log", "w") as log:
            self.restarted.append(
                subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True))

    def join(self, words, name):
        """An agent of another fingerprint, on a state of its own; `words`: another agent's command line."""
        directory = self.directory / name
        directory.mkdir()
        words = list(words)
        threads = "2" if os.environ.get("OMP_NUM_THREADS") == "1" else "1"
        for flag, value in {"--node": name, "--state": directory, "--socket": directory / "agent.sock"}.items():
            words[words.index(flag) + 1] = str(value)
        with open(self.directory / f"{name}.log", "w") as log:
            self.restarted.append(
                subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                 env={**os.environ, "OMP_NUM_THREADS": threads}))

    def start_tune(self, job, *arguments):
        self.out.mkdir(parents=True, exist_ok=True)
        with open(self.directory / "tune.log", "w") as log:
            return subprocess.Popen(
                [str(TRIMTAB), "tune", "--job", str(job), "--state", str(self.state), "--out", str(self.out), *map(str, arguments)],
                stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True,
            )

    def tune_log(self):
        return (self.directory / "tune.log").read_text()

    def all_logs(self):
        """What everybody wrote, the ends of it, for a failure's message."""
        files = sorted([*self.directory.glob("*.log"), *self.state.rglob("*.log")])
        return "\n".join(f"--- {file.relative_to(self.directory)}\n{file.read_text()[-3000:]}" for file in files)

    def get(self, path):
        """A document of the running coordinator's API."""
        port = json.loads((self.state / "up.json").read_text())["port"]
        token = (self.state / "token").read_text().strip()
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def told(self, name="tiny"):
        """The texts of a job's events."""
        return [event["text"] for event in self.get(f"/v1/jobs/{name}/events?after=0")["events"]]

    def wait_for(self, words, seconds, times=1, name="tiny"):
        """Until so many events of the job say these words."""
        try:
            wait_until(lambda: sum(words in text for text in self.told(name)) >= times, repr(words), seconds)
        except AssertionError as late:
            texts = "\n".join(self.told(name))
            raise AssertionError(f"{late}\n{texts}\n{self.all_logs()}") from None

    def report(self):
        return json.loads((self.out / "report.json").read_text())

    def write_job(self, name="tiny", plain=(), **changes):
        """A job small enough that a step takes some 20 ms, from the files beside this one. `plain`: which commands are those of PLAIN."""
        source = pathlib.Path(__file__).parent / "tiny"
        for file in source.iterdir():
            text = file.read_text()
            for command in plain:
                text = re.sub(rf"^{command} .*$", f"{command} = {json.dumps(PLAIN[command])}", text, flags=re.MULTILINE)
            values = {"ROOT": ROOT, "NAME": name, "DIR": self.directory, "AFTER": "stop", **changes}
            for old, new in values.items():
                text = text.replace(f"@{old}@", str(new))
            (self.directory / file.name).write_text(text)
        return self.directory / "job.toml"


def replace_in(file, changes):
    """Each of `changes`, old text to new, once in a file that must hold them."""
    text = file.read_text()
    for old, new in changes.items():
        assert old in text, f"{file} has no '{old}'"
        text = text.replace(old, new)
    file.write_text(text)


def command_line(pid):
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]


def rank_of(pid):
    """The rank that a training process is, by its command line."""
    words = command_line(pid)
    return int(words[words.index("--rank") + 1])


def rank_processes(job_directory):
    """Pids of training ranks, the trainer's or PLAIN, whose command line names this directory."""
    pids = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        trains = b"train" in command or any(part.endswith(b"train.py") for part in command)
        if trains and any(str(job_directory).encode() in part for part in command):
            pids.append(int(entry.name))
    return sorted(pids)


def state_of(pid):
    """The letter of proc(5): X where there is no such process."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "X"
    return stat.rpartition(")")[2].split()[0]


def is_dead(pid):
    return state_of(pid) in "ZX"


def kill_hard(pid):
    """SIGKILL, and the process's end: the signal alone does not wait for it."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    wait_until(lambda: is_dead(pid), f"the end of process {pid}", 30)
    return True

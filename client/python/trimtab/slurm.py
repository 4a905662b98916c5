"""Hands a launch to Slurm and says how it fares: the command `submit` of a job (docs/slurm.md).

    submit = ["python3", "-m", "trimtab.slurm", "--nodes", "{nodes}", "--ranks-per-node", "{ranks_per_node}", "job.sbatch"]

The agent starts it once a launch. It submits the batch script, tells the agent the Slurm job's state until that has ended,
and, asked to end (SIGTERM), takes the Slurm job back. Killed, its guardian does so. One Slurm job of a Trimtab job is in the
queue at a time: what an earlier launcher left there is cancelled first.
"""
import argparse
import dataclasses
import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from typing import Optional

from .connection import Connection

FINAL_SEND_S = 60.0   # An agent may be starting anew.
STRAYS_END_S = 120.0
GUARDIAN_S = 600.0
SIGNAL_EARLY_S = 60.0  # Slurm sends --signal up to so much earlier than asked.
ENDED = {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
         "SPECIAL_EXIT", "REVOKED"}
WAITING = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD"}


class NotSubmitted(Exception):
    """Slurm did not take the job."""


class Forgotten(Exception):
    """Slurm knows no such job."""


def seconds(text):
    """Slurm's D-HH:MM:SS; None where there is no limit."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if not found:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


@dataclasses.dataclass
class JobView:
    """What Slurm says of a job."""
    state: str
    reason: str = ""
    exit_code: str = "0:0"
    run_s: float = 0.0
    limit_s: Optional[float] = None
    preempted: bool = False
    restarts: int = 0
    output: str = ""  # path of the batch script's, where it runs

    @staticmethod
    def parse(line):
        fields = dict(re.findall(r"(\w+)=(\S*)", line))
        return JobView(fields.get("JobState", ""), fields.get("Reason", ""), fields.get("ExitCode", "0:0"),
                       seconds(fields.get("RunTime", "")) or 0.0, seconds(fields.get("TimeLimit", "")),
                       fields.get("PreemptTime", "None") not in ("None", ""), int(fields.get("Restarts", "0") or 0),
                       fields.get("StdOut", ""))

    @property
    def ended_by_sigterm(self):
        code, _, number = self.exit_code.partition(":")
        return number == str(int(signal.SIGTERM)) or code == str(128 + signal.SIGTERM)


def last_lines(path, size=2000):
    """Of what the batch script wrote; nothing where that is another node's file."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read().decode(errors="replace").strip()
    except (OSError, ValueError):
        return ""


class Slurm:
    """The commands of Slurm. Each may take as long as the controller does."""

    def submit(self, arguments):
        done = subprocess.run(["sbatch", "--parsable", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise NotSubmitted(f"sbatch: {done.stderr.strip() or f'exited with {done.returncode}'}")
        return int(done.stdout.strip().split(";")[0])

    def show(self, job):
        """None while the controller does not answer."""
        done = self._run("scontrol", "show", "job", str(job), "--oneliner")
        if done.returncode == 0:
            return JobView.parse(done.stdout)
        if "Invalid job id" in done.stderr + done.stdout:
            raise Forgotten(str(job))
        return None

    def cancel(self, job):
        """True when Slurm has heard it, or knows of no such job."""
        done = self._run("scancel", str(job))
        return done.returncode == 0 or "Invalid job id" in done.stderr

    def named(self, prefix):
        """This user's jobs in the queue whose names begin so; None while the controller does not answer."""
        done = self._run("squeue", "--noheader", f"--user={os.geteuid()}", "--format=%i %j")
        if done.returncode != 0:
            return None
        rows = [line.split(" ", 1) for line in done.stdout.splitlines() if " " in line]
        return [int(number) for number, name in rows if name.startswith(prefix) and number.isdigit()]

    @staticmethod
    def _run(*command):
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)


class Submission:
    """One launch as one Slurm job. `tell(state, message)` is told each state; states: docs/protocols.md."""

    def __init__(self, slurm, tell, lead_s, trial_queue_s=None, clock=time.monotonic):
        """`trial_queue_s`: how long it may wait in the queue; None = it is the job's own and waits as long as it must."""
        self._slurm, self._tell, self._clock = slurm, tell, clock
        self._lead_s, self._queue_s = lead_s, trial_queue_s
        self._job, self._submitted, self._started = None, 0.0, False
        self._taken_back = None  # (state, message) that its cancellation stands for
        self.ended = False

    @property
    def job(self):
        return self._job

    def submit(self, arguments):
        try:
            self._job = self._slurm.submit(arguments)
        except NotSubmitted as problem:
            return self._end("not_submitted", str(problem))
        self._submitted = self._clock()
        return None

    def take_back(self):
        """Asked to end. The job's own launch, once it runs, is ended by its ranks, whom the agents ask to save a checkpoint."""
        saves = self._started and self._queue_s is None
        if not saves and self._taken_back is None:
            self._cancel("cancelled", f"Slurm job {self._job} was taken back")

    def look(self):
        try:
            view = self._slurm.show(self._job)
        except Forgotten:
            return self._end(*(self._taken_back or ("lost", f"Slurm knows no job {self._job} any more")))
        if view is None or self.ended:
            return None
        if view.state in WAITING:
            return self._waits(view)
        if view.state in ENDED:
            return self._end(*self._verdict(view))
        if not self._started and view.state in ("RUNNING", "COMPLETING"):
            self._started = True
            self._tell("started", f"Slurm job {self._job} runs")
        return None

    def _waits(self, view):
        if self._taken_back:
            self._slurm.cancel(self._job)
        elif self._started or view.restarts > 0:
            self._cancel("requeued", f"Slurm job {self._job} was put back into the queue: {view.reason}")
        elif self._queue_s is not None and self._clock() - self._submitted > self._queue_s:
            self._cancel("not_started", f"Slurm job {self._job} did not start within {self._queue_s:.0f} s: {view.reason}")
        else:
            why = "" if view.reason in ("None", "") else f": {view.reason}"
            self._tell("queued", f"Slurm job {self._job} waits{why}")

    def _cancel(self, state, message):
        self._taken_back = (state, message)
        self._slurm.cancel(self._job)

    def _verdict(self, view):
        """The state that the job's end is, and a message for people."""
        name = f"Slurm job {self._job}"
        if self._taken_back:
            return self._taken_back
        if view.state == "PREEMPTED" or view.preempted:
            return "preempted", f"{name} was preempted after {view.run_s:.0f} s"
        if view.state == "TIMEOUT" or (self._was_warned(view) and (view.state == "COMPLETED" or view.ended_by_sigterm)):
            return "walltime", f"{name} reached its time limit of {view.limit_s or 0:.0f} s"
        if view.state in ("NODE_FAIL", "BOOT_FAIL"):
            return "node_failed", f"{name} lost a node: {view.reason}"
        if view.state == "CANCELLED":
            return "cancelled", f"{name} was cancelled, and not by Trimtab"
        if view.state == "DEADLINE":
            return "not_started", f"{name} did not start before its deadline"
        if view.state == "OUT_OF_MEMORY":
            return "out_of_memory", f"{name} took more memory than Slurm allows it"
        if view.state == "COMPLETED":
            return "completed", f"{name} completed"
        said = last_lines(view.output)
        return "failed", f"{name} ended as {view.state}, exit code {view.exit_code}" + (f"; its last output: {said}" if said else "")

    def _was_warned(self, view):
        """The ranks have been sent SIGTERM because its time was nearly over."""
        left = None if view.limit_s is None else view.limit_s - view.run_s
        return self._lead_s > 0 and left is not None and left <= self._lead_s + SIGNAL_EARLY_S

    def _end(self, state, message):
        self.ended = True
        self._tell(state, message)


def installation(environment, host):
    """Tells the Slurm jobs of one agent from another's with a job of the same name."""
    return hashlib.sha1(f"{host}:{environment.get('TRIMTAB_SOCKET', '')}".encode()).hexdigest()[:8]


def end_strays(slurm, prefix, clock=time.monotonic, sleep=time.sleep):
    """Cancels what earlier launchers left in the queue, and waits until it is gone."""
    deadline = clock() + STRAYS_END_S
    while True:
        jobs = slurm.named(prefix)
        if jobs == []:
            return
        if clock() > deadline:
            raise NotSubmitted("Slurm's controller does not answer" if jobs is None
                               else f"Slurm job {jobs[0]} of an earlier launch does not end")
        for job in jobs or []:
            slurm.cancel(job)
        sleep(1.0)


def batch_arguments(given, name):
    fixed = ["--export=ALL", "--no-requeue", f"--job-name={name}", f"--nodelist={given.nodes}",
             f"--nodes={len(given.nodes.split(','))}", f"--ntasks-per-node={given.ranks_per_node}"]
    warning = [f"--signal=TERM@{given.lead}"] if given.lead > 0 else []
    return [*fixed, *warning, *given.sbatch, given.script]


class Guardian:
    """A process of its own session that cancels the Slurm job when the launcher ends and has not released it."""

    def __init__(self, slurm, name):
        reading, self._pipe = os.pipe()
        if os.fork() == 0:
            os.close(self._pipe)
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os._exit(self._guard(slurm, name, reading))
        os.close(reading)

    def watch(self, job):
        os.write(self._pipe, f"{job}\n".encode())

    def release(self):
        os.write(self._pipe, b"released\n")
        os.close(self._pipe)

    @staticmethod
    def _guard(slurm, name, reading):
        told = b""
        while chunk := os.read(reading, 4096):
            told += chunk
        words = told.decode().split()
        deadline = time.monotonic() + GUARDIAN_S
        while "released" not in words and time.monotonic() < deadline:
            jobs = [int(words[0])] if words else slurm.named(name)
            if jobs is not None and all([slurm.cancel(job) for job in jobs]):
                return 0
            time.sleep(2.0)
        return 0


class Agent:
    """The agent's ear: keeps the last state, and says it again to an agent that came back."""

    def __init__(self, environment):
        hello = {"type": "launcher", "version": 1, "pid": os.getpid(), "job": environment["TRIMTAB_JOB"],
                 "launch": int(environment["TRIMTAB_LAUNCH"]), "variant": environment.get("TRIMTAB_VARIANT", "")}
        self._connection = Connection(environment["TRIMTAB_SOCKET"], lambda: hello)
        self._last, self._connections = None, 0

    def tell(self, state, message):
        told = {"type": "submission", "state": state, "message": message}
        if told != self._last:
            print(f"{state}: {message}", flush=True)
        self._last = told
        self._connection.send(self._last, important=True)

    def poll(self):
        self._connection.poll()
        if self._connection.connected_count > self._connections:
            again = self._connections > 0 and self._last
            self._connections = self._connection.connected_count
            if again:
                self._connection.send(self._last, important=True)
        return self._connection.connected and self._connection.unsent_bytes == 0

    def flush(self, patience):
        deadline = time.monotonic() + patience
        while not self.poll() and time.monotonic() < deadline:
            time.sleep(0.1)
        self._connection.disconnect()


def parse(arguments):
    parser = argparse.ArgumentParser(prog="trimtab.slurm", description="Submit a launch to Slurm and watch it.")
    parser.add_argument("--nodes", required=True, help="names, with commas between them: {nodes}")
    parser.add_argument("--ranks-per-node", type=int, required=True, help="{ranks_per_node}")
    parser.add_argument("--lead", type=int, default=120, metavar="S",
                        help="ranks are sent SIGTERM so long before the time limit (default 120; 0 = not)")
    parser.add_argument("--trial-queue", type=float, default=600, metavar="S",
                        help="how long a trial may wait in the queue (default 600); the job itself waits as long as it must")
    parser.add_argument("--poll", type=float, default=5, metavar="S", help="how often Slurm is asked (default 5)")
    parser.add_argument("--sbatch", action="append", default=[], metavar="OPTION", help="a further option of sbatch; repeatable")
    parser.add_argument("script", help="the batch script; it runs `srun python3 -m trimtab.slot`")
    return parser.parse_args(arguments)


def run(given, environment, slurm):
    """Until the Slurm job has ended."""
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    agent = Agent(environment)
    prefix = f"trimtab.{environment['TRIMTAB_JOB']}.{installation(environment, socket.gethostname())}."
    name = f"{prefix}{environment['TRIMTAB_LAUNCH']}.{environment.get('TRIMTAB_VARIANT') or 'job'}"
    os.environ["TRIMTAB_NODES"] = given.nodes  # for the batch script
    queue_s = given.trial_queue if environment.get("TRIMTAB_VARIANT") else None
    submission = Submission(slurm, agent.tell, given.lead, queue_s)
    try:
        end_strays(slurm, prefix)
    except NotSubmitted as problem:
        agent.tell("not_submitted", str(problem))
        return agent.flush(FINAL_SEND_S)
    if asked:
        agent.tell("cancelled", "asked to end before anything was submitted")
        return agent.flush(0)
    guardian = Guardian(slurm, name)
    submission.submit(batch_arguments(given, name))
    if submission.job is not None:
        guardian.watch(submission.job)
    while not submission.ended:
        known = len(asked)
        if asked:
            submission.take_back()
        submission.look()
        wake = time.monotonic() + (min(given.poll, 0.5) if asked else given.poll)
        while not submission.ended and len(asked) == known and time.monotonic() < wake:
            agent.poll()
            time.sleep(0.1)
    guardian.release()
    return agent.flush(0 if asked else FINAL_SEND_S)


def main(arguments=None):
    given = parse(arguments)
    missing = [name for name in ("TRIMTAB_JOB", "TRIMTAB_LAUNCH", "TRIMTAB_SOCKET") if name not in os.environ]
    if missing:
        print(f"trimtab.slurm: {', '.join(missing)} not set: the agent starts this, as a job's command `submit`", file=sys.stderr)
        return 2
    run(given, dict(os.environ), Slurm())
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A Slurm of several nodes on this machine, in a folder of its own: munged, slurmctld and a slurmd for each node."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "squeue")

# Two partitions over the same nodes: jobs of `urgent` take the place of those of `batch`, which have GraceTime to end.
CONFIGURATION = """
ClusterName=local
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge/socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_min_interval=100000
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
JobRequeue=1
KillWait=5
MinJobAge=3600
OverTimeLimit=0
ReturnToService=2
SlurmctldTimeout=60
SlurmdTimeout=60
SlurmdParameters=config_overrides
StateSaveLocation={directory}/controller
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
{more}
{nodes}
PartitionName=batch Nodes=ALL Default=YES MaxTime=60 PriorityTier=1 GraceTime=10 PreemptMode=CANCEL State=UP
PartitionName=urgent Nodes=ALL MaxTime=60 PriorityTier=10 PreemptMode=OFF State=UP
"""


def missing_programs():
    """Those that are not installed (packages: scripts/packages-full); a reason to skip, in words."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        return f"Slurm is not installed: {', '.join(missing)} missing (Debian: slurm-wlm, munge)"
    return "" if os.geteuid() == 0 else "a local Slurm's daemons must be started by root"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class LocalSlurm:
    """`with LocalSlurm(directory, nodes=2) as slurm:` runs until the block ends. `slurm.environment` is for clients."""

    def __init__(self, directory, nodes=2, more=""):
        self.directory = pathlib.Path(directory)
        self.nodes = [f"n{i}" for i in range(nodes)]
        self.more = more  # further lines of slurm.conf
        self.environment = {
            **os.environ,
            "SLURM_CONF": str(self.directory / "slurm.conf"),
            "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin",
        }
        self._daemons = []

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind, value, trace):
        self.stop()

    def _start(self):
        (self.directory / "munge").mkdir(parents=True)
        (self.directory / "controller").mkdir()
        controller_port, *ports = free_ports(1 + len(self.nodes))
        host = socket.gethostname().split(".")[0]
        nodes = "\n".join(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 RealMemory=1000 State=UNKNOWN"
                          for node, port in zip(self.nodes, ports))
        (self.directory / "slurm.conf").write_text(CONFIGURATION.format(
            host=host, controller_port=controller_port, directory=self.directory, nodes=nodes, more=self.more))
        key = self.directory / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        munge = self.directory / "munge"
        self._daemon("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={munge}/socket",
                     f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        self._wait(lambda: (munge / "socket").exists(), "munged's socket", 10)
        self._daemon("slurmctld", "-D")
        for node in self.nodes:
            self._daemon("slurmd", "-D", "-N", node)
        self._wait(lambda: all(self.node_state(node) == "IDLE" for node in self.nodes), "idle nodes", 60)

    def _daemon(self, *command):
        with open(self.directory / f"{len(self._daemons)}-{command[0]}.out", "w") as out:
            self._daemons.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=out,
                                                  stderr=out, start_new_session=True))

    def _wait(self, condition, what, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return
            ended = [one for one in self._daemons if one.poll() is not None]
            if ended:
                raise AssertionError(f"{ended[0].args[0]} ended with {ended[0].returncode}:\n{self.logs()}")
            time.sleep(0.1)
        raise AssertionError(f"no {what} within {seconds} s:\n{self.logs()}")

    def stop(self):
        """Ends all jobs first: what a job's processes are owned by (slurmstepd) outlives slurmd."""
        if len(self._daemons) > 1:
            self.run("scancel", "--user=root", check=False)
            deadline = time.monotonic() + 40
            while time.monotonic() < deadline and self.jobs():
                time.sleep(0.2)
        for process in reversed(self._daemons):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._daemons = []

    def run(self, *command, check=True, timeout=60):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)} gave {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def node_state(self, node):
        shown = self.run("scontrol", "show", "node", node, "--oneliner", check=False)
        return shown.partition(" State=")[2].split(" ")[0]

    def jobs(self, *states):
        """Ids of the jobs that are in the queue, or of those in these states."""
        chosen = [f"--states={','.join(states)}"] if states else []
        return [int(word) for word in self.run("squeue", "--noheader", "--format=%i", *chosen, check=False).split()]

    def logs(self):
        files = [*self.directory.glob("*.out"), *self.directory.glob("munge/log")]
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')[-1500:]}" for file in sorted(files))

"""packaging/slurm without a Slurm: its hooks beside a user who wants root to open, follow or wait for something, and the
batch script on one node."""

import json
import os
import pathlib
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from installation import BUILD, ROOT, wait_until

HOOKS = ROOT / "packaging" / "slurm"
USER = "nobody"
LIMIT = 16 << 20  # of what is kept of an agent's log
AGENT = """#!/bin/bash
echo "the agent says $((6 * 7))"
printf '%s\\n' "$@" >arguments
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("agent.sock")'
exec sleep 1000
"""


def may_become(user):
    return os.geteuid() == 0 and shutil.which("setpriv") and user in {one.pw_name for one in pwd.getpwall()}


@unittest.skipUnless(may_become(USER), f"needs root, setpriv and a user {USER}")
class Hooks(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-hooks-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.root.chmod(0o755)
        for folder in ("run", "var/log"):
            (self.root / folder).mkdir(parents=True)
        self.place = self.root / "run" / "trimtab-slurm" / "7-n0"
        self.own = self.place / "agent"
        self.state = self.root / "var/lib/trimtab/slurm" / f"{USER}-n0"
        self.kept = self.root / "var" / "log" / "trimtab-agent-7-n0.log"
        user = pwd.getpwnam(USER)
        self.environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TRIMTAB_SLURM_ROOT": str(self.root),
            "TRIMTAB_SLURM_LOG": str(self.root / "var/log/hooks.log"), "TRIMTAB_AGENT": str(self.root / "agent"),
            "SLURM_JOB_COMMENT": "trimtab", "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n0", "SLURM_JOB_USER": USER,
            "SLURM_JOB_UID": str(user.pw_uid)}
        self.addCleanup(self.end_agent)

    def end_agent(self):
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(entry / "cwd").startswith(str(self.own)):
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                pass

    def hook(self, name, timeout=60):
        begun = time.monotonic()
        done = subprocess.run([str(HOOKS / name)], env=self.environment, timeout=timeout, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, "a hook that fails drains its node")
        return time.monotonic() - begun

    def start(self):
        (self.root / "agent").write_text(AGENT)
        (self.root / "agent").chmod(0o755)
        self.hook("prolog")
        self.assertTrue((self.place / "pid").exists(), self.said())
        return int((self.place / "pid").read_text().split()[0])

    def said(self):
        return (self.root / "var/log/hooks.log").read_text()

    def as_user(self, script):
        subprocess.run(["setpriv", f"--reuid={USER}", "--clear-groups", "bash", "-c", script], cwd=self.own, check=True)

    def test_the_agent_runs_as_the_user_in_a_folder_of_root(self):
        pid = self.start()
        wait_until(lambda: (self.own / "agent.log").exists() and (self.own / "agent.log").read_text(), "the log", 10)
        owner = pwd.getpwnam(USER).pw_uid
        self.assertEqual(os.stat(f"/proc/{pid}").st_uid, owner)
        self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), str(self.own))
        for path in (self.place, self.place / "pid", self.place / "lock"):
            self.assertEqual((path.stat().st_uid, stat.S_IMODE(path.stat().st_mode) & 0o022), (0, 0), path)
        self.assertEqual((self.own.stat().st_uid, stat.S_IMODE(self.own.stat().st_mode)), (owner, 0o700))
        self.hook("prolog")
        self.assertEqual(int((self.place / "pid").read_text().split()[0]), pid, "one agent, however often it is asked for")
        self.assertLess(self.hook("epilog"), 15)
        self.assertFalse(pathlib.Path(f"/proc/{pid}").exists() and not self.is_zombie(pid))
        self.assertEqual(self.kept.read_text(), "the agent says 42\n")
        self.assertFalse(self.place.exists())

    def test_the_agent_takes_the_jobs_of_its_user_alone(self):
        self.start()
        said = self.arguments()
        self.assertEqual(said[said.index("--tenant") + 1], USER)
        self.assertEqual(said[said.index("--config") + 1], str(self.root / "etc/trimtab/agent.toml"))

    def test_the_agent_reads_the_file_of_its_user_where_there_is_one(self):
        own = self.root / "etc/trimtab" / f"agent-{USER}.toml"
        own.parent.mkdir(parents=True)
        own.write_text("")
        self.start()
        said = self.arguments()
        self.assertEqual(said[said.index("--config") + 1], str(own))

    def arguments(self):
        file = self.own / "arguments"
        wait_until(lambda: file.exists() and "--stop-ranks-on-exit" in file.read_text(), "the agent's arguments", 10)
        return file.read_text().splitlines()

    def test_what_an_agent_has_stored_is_there_for_the_agent_beside_the_next_job(self):
        self.start()
        said = self.arguments()
        self.assertEqual(said[said.index("--state") + 1], str(self.state))
        parent = self.state.parent.stat()
        self.assertEqual((parent.st_uid, stat.S_IMODE(parent.st_mode)), (0, 0o755))
        self.assertEqual((self.state.stat().st_uid, stat.S_IMODE(self.state.stat().st_mode)), (pwd.getpwnam(USER).pw_uid, 0o700))
        self.as_user(f"echo unsent >{self.state}/agent.db")
        self.hook("epilog")
        self.assertFalse(self.place.exists())
        self.environment["SLURM_JOB_ID"] = "8"
        self.place = self.place.with_name("8-n0")
        self.own = self.place / "agent"
        self.start()
        said = self.arguments()
        self.assertEqual(said[said.index("--state") + 1], str(self.state))
        self.assertEqual((self.state / "agent.db").read_text(), "unsent\n")

    def test_a_directory_of_states_that_is_not_roots_is_not_used(self):
        foreign = self.root / "foreign"
        foreign.mkdir()
        self.state.parent.parent.mkdir(parents=True)
        self.state.parent.symlink_to(foreign)
        self.hook("prolog")
        self.assertEqual(list(foreign.iterdir()), [])
        self.assertTrue((self.place / "agent/state").is_dir())  # it ends with the job
        self.assertIn(f"{self.state.parent} must be a directory of root's", self.said())
        self.hook("epilog")

    @staticmethod
    def is_zombie(pid):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

    def test_a_pipe_in_the_place_of_the_log_stops_nobody(self):
        self.start()
        self.as_user("rm -f agent.log; mkfifo agent.log")
        self.assertLess(self.hook("epilog"), 15)
        self.assertEqual(self.kept.read_bytes(), b"")
        self.assertFalse(self.place.exists())

    def test_a_link_in_the_place_of_the_log_shows_nothing(self):
        secret = self.root / "secret"
        secret.write_text("what root alone may read")
        secret.chmod(0o600)
        self.start()
        self.as_user(f"rm -f agent.log; ln -s {secret} agent.log")
        self.hook("epilog")
        self.assertEqual(self.kept.read_bytes(), b"")
        self.assertEqual(secret.read_text(), "what root alone may read")

    def test_a_log_without_end_is_kept_up_to_a_limit(self):
        self.start()
        self.as_user("truncate -s 10G agent.log")
        self.hook("epilog")
        self.assertEqual(self.kept.stat().st_size, LIMIT)

    def test_links_that_the_user_put_there_are_not_followed_by_the_prolog(self):
        victim = self.root / "victim"
        victim.write_text("root's")
        self.start()
        self.as_user(f"cd ..; ln -sf {victim} lock; ln -sf {victim} pid; rm -f agent/agent.log; "
                     f"ln -s {victim} agent/agent.log; true")
        self.end_agent()
        self.hook("prolog")
        self.hook("epilog")
        self.assertEqual(victim.read_text(), "root's")

    def test_nobody_is_ended_but_the_agent(self):
        bystander = subprocess.Popen(["setpriv", f"--reuid={USER}", "--clear-groups", "sleep", "1000"])
        self.addCleanup(bystander.wait)
        self.addCleanup(bystander.kill)
        self.start()
        self.end_agent()
        # Its number has gone to somebody else, who began at another time.
        (self.place / "pid").write_text(f"{bystander.pid} 1\n")
        self.assertLess(self.hook("epilog"), 15)
        self.assertIsNone(bystander.poll())

    def test_a_place_that_is_not_roots_is_not_used(self):
        self.place.parent.mkdir()
        self.place.mkdir()
        os.chown(self.place, pwd.getpwnam(USER).pw_uid, -1)
        self.hook("prolog")
        self.assertEqual(list(self.place.iterdir()), [])
        self.assertIn("must be a directory of root's", self.said())


# srun of one node.
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
export SLURM_NODEID=0
exec "$@"
"""


class BatchScript(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-batch-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        bin_directory = self.directory / "bin"
        bin_directory.mkdir()
        (bin_directory / "srun").write_text(SRUN)
        (bin_directory / "srun").chmod(0o755)
        (self.directory / "tmp").mkdir()
        self.folder = self.directory / "folder"
        self.environment = {**os.environ, "PATH": f"{bin_directory}:{BUILD}/bin:{os.environ['PATH']}", "SLURM_JOB_ID": "7",
                            "TMPDIR": str(self.directory / "tmp")}
        # A coordinator is all that is looked at: `tune` waits for a second device, which there is not.
        example = ROOT / "examples" / "torchrun-ddp"
        self.job = self.directory / "job.toml"
        self.job.write_text((example / "job.toml").read_text().replace('"initial.json"', f'"{example}/initial.json"'))

    def start(self):
        log = open(self.directory / "batch.log", "w")
        self.addCleanup(log.close)
        batch = subprocess.Popen(["bash", str(HOOKS / "tune.sbatch"), str(self.job), str(self.folder)], cwd=self.directory,
                                 env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(batch.wait)
        self.addCleanup(batch.terminate)
        port = self.folder / "port"
        wait_until(lambda: (port.exists() and port.read_text().strip()) or batch.poll() is not None, "the port", 30)
        self.assertIsNone(batch.poll(), "the batch script ended")
        return batch, int(port.read_text())

    def trimtab(self, *arguments):
        done = subprocess.run([str(BUILD / "bin" / "trimtab"), *map(str, arguments)], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @staticmethod
    def ask(port, token=None):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/nodes")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read().decode()

    def test_the_coordinator_of_an_allocation_asks_for_a_token_that_its_owner_alone_can_read(self):
        # Somebody else's directory under a name that can be guessed.
        foreign = self.directory / "tmp" / "trimtab-7-0"
        foreign.mkdir()
        batch, port = self.start()
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.ask(port)
        self.assertEqual(refused.exception.code, 401)
        for name in ("tokens", "token", "agent.token"):
            self.assertEqual(stat.S_IMODE((self.folder / name).stat().st_mode), 0o600, name)
        token = (self.folder / "token").read_text().strip()
        wait_until(lambda: "node0" in self.ask(port, token), "the agent's joining with its token", 30)
        self.assertEqual(list(foreign.iterdir()), [])
        own, = (self.directory / "tmp").glob("trimtab-7-0.*")
        self.assertEqual(stat.S_IMODE(own.stat().st_mode), 0o700)
        # As at the time limit.
        agent = int((self.folder / "agents" / "0").read_text())
        batch.send_signal(signal.SIGTERM)
        self.assertEqual(batch.wait(timeout=60), 0, (self.directory / "batch.log").read_text())
        self.assertFalse(pathlib.Path(f"/proc/{agent}").exists())

    def test_with_certificates_the_coordinator_speaks_tls_and_its_owner_and_agents_show_theirs(self):
        shown, authority = self.directory / "certificates", self.directory / "ca"
        self.trimtab("cert", "init", "--dir", authority, "--cluster", "lab")
        for kind, name, more in (("coordinator", "coordinator", ("--host", "localhost")), ("person", "owner", ()), ("node", "node0", ())):
            self.trimtab("cert", "issue", kind, name, "--dir", authority, *more, "--out", shown)
        self.environment |= {"TRIMTAB_CERTIFICATES": str(shown), "TRIMTAB_COORDINATOR_LISTEN": "0.0.0.0:0",
                             "TRIMTAB_COORDINATOR_HOST": "localhost"}
        batch, port = self.start()
        status = lambda: self.trimtab("status", "--coordinator", f"localhost:{port}", "--tls-authority", shown / "ca.crt",
                                      "--tls-certificate", shown / "owner.crt", "--tls-key", shown / "owner.key",
                                      "--token-file", self.folder / "token", "--json")
        wait_until(lambda: '"node0"' in status(), "the agent's joining with its certificate", 30)
        batch.send_signal(signal.SIGTERM)
        self.assertEqual(batch.wait(timeout=60), 0, (self.directory / "batch.log").read_text())


# Programs that stand for Trimtab's own, in the directory FAKE. What the coordinator says of the job is the file `said` there.
ENDS_WHEN_ASKED = "trap 'exit 0' TERM\nwhile true; do sleep 0.05; done\n"
PROGRAMS = {
    "srun": SRUN,
    "trimtab-coordinator": """#!/bin/bash
while [ "$1" != --port-file ]; do shift; done
echo $$ >"$FAKE/coordinator"
echo "the coordinator speaks"
echo 7 >"$2"
""" + ENDS_WHEN_ASKED,
    "trimtab-agent": "#!/bin/bash\n" + ENDS_WHEN_ASKED,
    "trimtab": """#!/bin/bash
case $1 in
  tune) until [ -s "$FAKE/folder/agents/0" ]; do sleep 0.05; done; . "$FAKE/tune" ;;
  status) kill -0 "$(cat "$FAKE/coordinator")" && cat "$FAKE/said" ;;
esac
""",
}


class EndOfBatchScript(unittest.TestCase):
    """When the allocation is given back, and with which exit code."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-batch-end-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        for name, text in PROGRAMS.items():
            (self.directory / name).write_text(text)
            (self.directory / name).chmod(0o755)
        self.environment = {"PATH": f"{self.directory}:/usr/bin:/bin", "FAKE": str(self.directory), "SLURM_JOB_ID": "7",
                            "TMPDIR": str(self.directory)}

    def run_job(self, phase, doing="nothing", tune="exit 0"):
        jobs = [{"active": True, "doing": doing, "name": "tiny", "phase": phase}] if phase else []
        (self.directory / "said").write_text(json.dumps({"jobs": jobs, "nodes": []}))
        (self.directory / "tune").write_text(tune)
        with subprocess.Popen(["bash", str(HOOKS / "tune.sbatch"), "job.toml", str(self.directory / "folder")], text=True,
                              env=self.environment, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, start_new_session=True) as batch:
            try:
                said = batch.communicate(timeout=30)[1]
            except subprocess.TimeoutExpired:
                os.killpg(batch.pid, signal.SIGKILL)
                self.fail("the allocation is held")
        for name in ("coordinator", "folder/agents/0"):
            self.assertFalse(pathlib.Path(f"/proc/{(self.directory / name).read_text().strip()}").exists(), name)
        return batch.returncode, said

    def test_a_job_that_has_finished_is_a_success(self):
        self.assertEqual(self.run_job("finished"), (0, ""))

    def test_a_job_that_has_failed_is_none(self):
        self.assertEqual(self.run_job("failed")[0], 1)

    def test_a_halted_job_does_not_hold_its_allocation(self):
        code, said = self.run_job("training", doing="halted")
        self.assertEqual(code, 1)
        self.assertIn("the job is halted", said)

    def test_a_job_whose_coordinator_is_gone_is_none(self):
        code, said = self.run_job("training", tune='kill -KILL "$(cat "$FAKE/coordinator")"')
        self.assertEqual(code, 1)
        self.assertIn("the coordinator ended before the job did: the coordinator speaks", said)

    def test_what_was_not_taken_ends_with_the_code_of_tune(self):
        self.assertEqual(self.run_job(None, tune="exit 5")[0], 5)


if __name__ == "__main__":
    unittest.main()

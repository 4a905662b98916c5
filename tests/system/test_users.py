"""A coordinator and two agents, each another user's, share no directory, as where packages installed them on several
machines: a job with a rank on each node trains all the same; and where the agents are two tenants', neither has to do with
the other's job. Needs root, to become those users."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest
import urllib.error
import urllib.request

from installation import BUILD, PLAIN, Installation, ROOT, TRIMTAB, free_port, rank_processes, replace_in, wait_until

USERS = {"coordinator": 20001, "n0": 20002, "n1": 20003}
BY_WHOM = ("--coordinator-user", str(USERS["coordinator"]))
READABLE = all(folder.stat().st_mode & 0o005 == 0o005 for folder in [ROOT, *ROOT.parents, BUILD / "bin"])


def rendezvous_of(user):
    """Where ranks of that user meet, by their command lines."""
    places = set()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode().split("\0")
            own = process.stat().st_uid == user
        except OSError:
            continue
        if own and "--rendezvous" in words:
            places.add(words[words.index("--rendezvous") + 1])
    return places


def become(name):
    return ["setpriv", f"--reuid={USERS[name]}", f"--regid={USERS[name]}", "--clear-groups"]


def start(trimtab, name, program, *arguments):
    state = trimtab.directory / name
    state.mkdir(mode=0o700)
    os.chown(state, USERS[name], USERS[name])
    trimtab.restarted.append(subprocess.Popen(
        [*become(name), str(BUILD / "bin" / program), "--state", str(state), "--log-file", str(state / "log"), *arguments]))
    return state


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
@unittest.skipUnless(READABLE, f"other users cannot read {ROOT}")
class UsersTest(unittest.TestCase):
    def test_ranks_on_nodes_of_other_users_meet_and_train(self):
        with Installation() as trimtab:
            trimtab.directory.chmod(0o755)
            job = trimtab.write_job(MEMORY="1GiB", plain=["benchmark"])
            replace_in(job, {'mode = "auto"': 'mode = "observe"', "steps = 100000": "steps = 60"})
            port = free_port()
            start(trimtab, "coordinator", "trimtab-coordinator", "--listen", f"127.0.0.1:{port}")
            nodes = [start(trimtab, node, "trimtab-agent", "--coordinator", f"127.0.0.1:{port}", "--node", node, "--devices", "1",
                           "--metrics-port", "0", "--socket", str(trimtab.directory / node / "socket"), *BY_WHOM)
                     for node in ("n0", "n1")]
            wait_until(lambda: all((state / "socket").exists() for state in nodes), "both agents run", 30)
            tune = subprocess.Popen([str(BUILD / "bin" / "trimtab"), "tune", "--coordinator", f"127.0.0.1:{port}", *BY_WHOM, "--job", str(job),
                                     "--out", str(trimtab.out)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            trimtab.restarted.append(tune)
            try:
                places = wait_until(lambda: rendezvous_of(USERS["n0"]) & rendezvous_of(USERS["n1"]), "ranks of both users meet", 120)
                self.assertTrue(all(place.startswith("tcp://127.0.0.1:") for place in places), places)
                text, _ = tune.communicate(timeout=200)
                self.assertEqual(tune.returncode, 0, text)
                self.assertEqual(trimtab.report()["phase"], "finished", text)
            except (AssertionError, subprocess.TimeoutExpired) as failure:
                logs = [(state / "log").read_text()[-3000:] for state in nodes]
                raise AssertionError("\n".join([str(failure), *logs])) from None


CONNECT = """
import socket, sys
place = socket.socket(socket.AF_UNIX)
place.connect(sys.argv[1])
place.sendall(b"x")
print(len(place.recv(1)))
"""


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
@unittest.skipUnless(READABLE, f"other users cannot read {ROOT}")
class TenantsTest(unittest.TestCase):
    """Ana's agent runs as one user, Bob's as another; each hands in a job, and both train at once."""

    def setUp(self):
        self.trimtab = self.enterContext(Installation())
        self.trimtab.directory.chmod(0o755)
        self.port = free_port()

    def token(self, name, role, tenant, owner):
        place = self.trimtab.directory / f"{name}.token"
        tokens = self.trimtab.directory / "tokens"
        self.trimtab.run("token", "add", name, "--role", role, "--tenant", tenant, "--tokens", tokens, "--out", place)
        os.chown(place, owner, owner)
        os.chown(tokens, USERS["coordinator"], USERS["coordinator"])
        return place

    def job(self, name):
        """The job file of that name, in a folder of its own."""
        source = self.trimtab.write_job(name=name, MEMORY="1GiB", AFTER="continue", plain=PLAIN)
        folder = self.trimtab.directory / f"job-{name}"
        folder.mkdir()
        folder.chmod(0o777)  # Its ranks write there, as whoever they are.
        job = source.rename(folder / "job.toml")
        replace_in(job, {f'"{self.trimtab.directory}"': f'"{folder}"', 'mode = "auto"': 'mode = "observe"'})
        return job

    def ask(self, person, path, method="GET"):
        """The status of an answer, and what it says."""
        token = (self.trimtab.directory / f"{person}.token").read_text().strip()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method,
                                         headers={"Authorization": f"Bearer {token}"}, data=b"" if method == "POST" else None)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read())

    def ranks_of(self, name):
        """The users as whom ranks of the job run."""
        return {pathlib.Path(f"/proc/{pid}").stat().st_uid for pid in rank_processes(self.trimtab.directory / f"job-{name}")}

    def test_neither_sees_runs_or_reaches_what_is_the_others(self):
        for person, node in (("ana", "n0"), ("bob", "n1")):
            self.token(person, "operate", person, 0)
            self.token(f"agent-{person}", "agent", person, USERS[node])
        start(self.trimtab, "coordinator", "trimtab-coordinator", "--listen", f"127.0.0.1:{self.port}", "--tokens",
              str(self.trimtab.directory / "tokens"))
        for person, node in (("ana", "n0"), ("bob", "n1")):
            start(self.trimtab, node, "trimtab-agent", "--coordinator", f"127.0.0.1:{self.port}", "--node", node, "--devices", "2",
                  "--tenant", person, "--token-file", str(self.trimtab.directory / f"agent-{person}.token"), "--stop-ranks-on-exit",
                  "--metrics-port", "0", "--socket", str(self.trimtab.directory / node / "socket"), *BY_WHOM)
            wait_until(lambda: (self.trimtab.directory / node / "socket").exists(), f"{node}'s agent", 30)
        for person in ("ana", "bob"):
            words = [TRIMTAB, "tune", "--coordinator", f"127.0.0.1:{self.port}", *BY_WHOM, "--token-file",
                     self.trimtab.directory / f"{person}.token", "--job", self.job(f"{person}-job"), "--out", self.trimtab.out / person]
            # First, so that it ends while there is a coordinator: without one it waits for half a minute.
            self.trimtab.restarted.insert(0, subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL,
                                                              stderr=subprocess.DEVNULL))
        wait_until(lambda: self.ranks_of("ana-job") == {USERS["n0"]} and self.ranks_of("bob-job") == {USERS["n1"]},
                   "each job's ranks as its own user", 150)
        for person, other in (("ana", "bob"), ("bob", "ana")):
            with self.subTest(person):
                self.refused(person, other)
        self.assertEqual(self.ask("bob", "/v1/jobs/bob-job/stop", "POST")[0], 200)
        wait_until(lambda: self.ask("bob", "/v1/jobs/bob-job")[1]["phase"] == "stopped", "the end of Bob's job", 60)
        step = self.ask("ana", "/v1/jobs/ana-job")[1]["step"]
        wait_until(lambda: self.ask("ana", "/v1/jobs/ana-job")[1]["step"] > step, "Ana's job trains on", 60)
        self.assertEqual(self.ranks_of("ana-job"), {USERS["n0"]})

    def refused(self, person, other):
        status, seen = self.ask(person, "/v1/status")
        self.assertEqual((status, [job["name"] for job in seen["jobs"]]), (200, [f"{person}-job"]))
        self.assertNotIn(f"{other}-job", json.dumps(seen))
        for path, method in (("", "GET"), ("/stop", "POST"), ("/freeze", "POST"), ("/report", "GET"), ("/live", "GET")):
            self.assertEqual(self.ask(person, f"/v1/jobs/{other}-job{path}", method)[0], 404, path)
        self.assertEqual(self.ask(person, "/v1/audit")[0], 403)  # it tells of all tenants' jobs
        here, there = ("n0", "n1") if person == "ana" else ("n1", "n0")
        (self.trimtab.directory / there).chmod(0o711)  # the socket's own file and its peer's credentials are what refuses
        done = subprocess.run([*become(here), "/usr/bin/python3", "-c", CONNECT, str(self.trimtab.directory / there / "socket")],
                              capture_output=True, text=True, timeout=30)
        (self.trimtab.directory / there).chmod(0o700)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("PermissionError", done.stderr)


LISTEN = """
import socket, sys
place = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
while True:
    there, _ = place.accept()
    there.settimeout(10)
    print("heard", there.recv(4096), flush=True)
    there.close()
"""


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
@unittest.skipUnless(READABLE, f"other users cannot read {ROOT}")
class ListenerTest(unittest.TestCase):
    """Where the coordinator is not up, somebody else listens at its port on loopback."""

    def test_agent_and_program_send_nothing_to_another_users_listener(self):
        with Installation() as trimtab:
            trimtab.directory.chmod(0o755)
            port = free_port()
            stranger = subprocess.Popen([*become("n1"), "/usr/bin/python3", "-c", LISTEN, str(port)], stdout=subprocess.PIPE, text=True)
            trimtab.restarted.append(stranger)
            self.assertEqual(stranger.stdout.readline(), "listens\n")
            state = start(trimtab, "n0", "trimtab-agent", "--coordinator", f"127.0.0.1:{port}", "--node", "n0", "--devices", "1",
                          "--metrics-port", "0", "--socket", str(trimtab.directory / "n0" / "socket"))
            log = state / "log"
            wait_until(lambda: log.exists() and "listener belongs to" in log.read_text(), "the agent's refusal", 20)
            self.assertIn(f"coordinator_user {USERS['n1']}", log.read_text())
            status = [str(BUILD / "bin" / "trimtab"), "status", "--coordinator", f"127.0.0.1:{port}"]
            done = subprocess.run(status, capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"--coordinator-user {USERS['n1']}", done.stderr)
            self.assertEqual(stranger.stdout.readline(), "heard b''\n")
            # Who names that user is heard.
            subprocess.run([*status, "--coordinator-user", str(USERS["n1"])], capture_output=True, timeout=30, check=False)
            heard = wait_until(lambda: (line := stranger.stdout.readline()) != "heard b''\n" and line, "a request", 20)
            self.assertIn("GET /v1/status", heard)


if __name__ == "__main__":
    unittest.main()

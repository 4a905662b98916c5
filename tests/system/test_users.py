"""A coordinator and two agents, each another user's, share no directory, as where packages installed them on several
machines: a job with a rank on each node trains all the same. Needs root, to become those users."""

import os
import pathlib
import shutil
import subprocess
import unittest

from installation import BUILD, Installation, ROOT, free_port, wait_until

USERS = {"coordinator": 20001, "n0": 20002, "n1": 20003}


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


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
class UsersTest(unittest.TestCase):
    def start(self, trimtab, name, program, *arguments):
        state = trimtab.directory / name
        state.mkdir(mode=0o700)
        os.chown(state, USERS[name], USERS[name])
        trimtab.restarted.append(subprocess.Popen(
            ["setpriv", f"--reuid={USERS[name]}", f"--regid={USERS[name]}", "--clear-groups", str(BUILD / "bin" / program),
             "--state", str(state), "--log-file", str(state / "log"), *arguments]))
        return state

    def test_ranks_on_nodes_of_other_users_meet_and_train(self):
        reachable = [ROOT, *ROOT.parents, BUILD / "bin"]
        if not all(folder.stat().st_mode & 0o005 == 0o005 for folder in reachable):
            self.skipTest(f"other users cannot read {ROOT}")
        with Installation() as trimtab:
            trimtab.directory.chmod(0o755)
            job = trimtab.write_job(MEMORY="1GiB")
            job.write_text(job.read_text().replace('mode = "auto"', 'mode = "observe"').replace("steps = 100000", "steps = 300"))
            port = free_port()
            self.start(trimtab, "coordinator", "trimtab-coordinator", "--listen", f"127.0.0.1:{port}")
            nodes = [self.start(trimtab, node, "trimtab-agent", "--coordinator", f"127.0.0.1:{port}", "--node", node, "--devices",
                                "1", "--metrics-port", "0", "--socket", str(trimtab.directory / node / "socket"))
                     for node in ("n0", "n1")]
            wait_until(lambda: all((state / "socket").exists() for state in nodes), "both agents run", 30)
            tune = subprocess.Popen([str(BUILD / "bin" / "trimtab"), "tune", "--coordinator", f"127.0.0.1:{port}", "--job", str(job),
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


if __name__ == "__main__":
    unittest.main()

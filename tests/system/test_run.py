"""`trimtab run` with real daemons: the command must not notice that it is there, whatever becomes of Trimtab."""

import contextlib
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

from installation import BUILD, ROOT, TRIMTAB, free_port, is_dead, kill_hard, state_of, wait_until

READABLE = all(folder.stat().st_mode & 0o005 == 0o005 for folder in [ROOT, *ROOT.parents, BUILD / "bin"])
NOBODY = 20005
# Debian's torchrun 1.13 under Python 3.11 does not read its own defaults.
DEBIANS = ("--redirects", "1", "--tee", "1")
PRINT_JOB = "import os; print(os.environ.get('TRIMTAB_JOB', 'bare'), flush=True)"
# Says that it is there, then what it is sent.
TELLS_SIGNALS = """
import os, signal, sys, time
def tell(number, frame):
    print(signal.Signals(number).name, flush=True)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGCONT):
    signal.signal(number, tell)
print(f"pid {os.getpid()}", flush=True)
while True:
    time.sleep(0.05)
"""


def without(*names, **changes):
    """The environment of these tests less what names a state directory or a run."""
    kept = {name: value for name, value in os.environ.items()
            if name not in names and not name.startswith(("TRIMTAB_STATE", "TRIMTAB_SOCKET", "TRIMTAB_WATCH", "SLURM_", "XDG_STATE"))}
    return {**kept, **changes}


class RunTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-run-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.state = self.directory / "state"
        self.addCleanup(self.bring_down)
        self.environment = without(TRIMTAB_STATE=str(self.state))

    def bring_down(self):
        subprocess.run([str(TRIMTAB), "down", "--state", str(self.state)], capture_output=True, timeout=60)

    def words(self, *command, flags=()):
        return [str(TRIMTAB), "run", *map(str, flags), "--", *map(str, command)]

    def run_it(self, *command, flags=(), environment=None, **others):
        return subprocess.run(self.words(*command, flags=flags), env=environment or self.environment, cwd=self.directory, text=True,
                              **{"timeout": 60, "capture_output": True, **others})

    def start(self, *command, flags=(), **others):
        process = subprocess.Popen(self.words(*command, flags=flags), env=self.environment, cwd=self.directory, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **others)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def daemons(self):
        with contextlib.suppress(OSError):
            return [process["pid"] for process in json.loads((self.state / "up.json").read_text())["processes"]]
        return []

    def assert_watched(self, done, job):
        self.assertEqual(done.stdout.strip(), job, done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)

    def assert_bare(self, done, *words):
        self.assertEqual(done.stdout.strip(), "bare", done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [line for line in done.stderr.splitlines() if line.startswith("trimtab: ")]
        self.assertEqual(len(said), 1, done.stderr)
        for word in (*words, "the command runs without Trimtab"):
            self.assertIn(word, said[0])


class Transparent(RunTest):
    def test_the_exit_code_is_the_commands_and_nothing_stays_behind(self):
        for code in (0, 1, 77):
            self.assertEqual(self.run_it("sh", "-c", f"exit {code}").returncode, code)
        wait_until(lambda: not self.daemons(), "the daemons' end", 20)

    def test_a_command_that_a_signal_ends_ends_it_by_that_signal(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            self.assertEqual(self.run_it("sh", "-c", f"kill -{int(number)} $$").returncode, -number)

    def test_what_cannot_be_executed_fails_as_in_a_shell_and_starts_no_daemon(self):
        plain = self.directory / "plain.txt"
        plain.write_text("no program")
        for word, code in (("no-such-command", 127), ("/no/such/command", 127), (plain, 126), (self.directory, 126)):
            done = self.run_it(word)
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            self.assertIn(str(word), done.stderr)
        self.assertFalse(self.state.exists())
        self.assertEqual(subprocess.run([str(TRIMTAB), "run"], capture_output=True).returncode, 2)

    def test_words_reach_the_command_as_they_are(self):
        words = ["--", "--name", "", "[1,2]", "a b", "*", "-", "'"]
        done = self.run_it(sys.executable, "-c", "import sys; print(sys.argv[1:])", *words)
        self.assertEqual(done.stdout.strip(), str(words), done.stderr)

    def test_standard_input_and_output_are_the_commands(self):
        done = self.run_it("tr", "a-z", "A-Z", input="through\n")
        self.assertEqual(done.stdout, "THROUGH\n", done.stderr)
        piped = subprocess.run(f"echo one | '{TRIMTAB}' run -- cat | wc -c", shell=True, env=self.environment, cwd=self.directory,
                               capture_output=True, text=True, timeout=60)
        self.assertEqual(piped.stdout.strip(), "4", piped.stderr)
        # A reader that goes away ends the command by SIGPIPE, not by an error of a write.
        gone = subprocess.run(["bash", "-c", f"'{TRIMTAB}' run -- yes | head -1; exit ${{PIPESTATUS[0]}}"], env=self.environment,
                              cwd=self.directory, capture_output=True, text=True, timeout=60)
        self.assertEqual(gone.returncode, 128 + signal.SIGPIPE, gone.stderr)

    def test_closed_descriptors_stay_closed_and_others_stay_open(self):
        look = "import os, sys\nfor n in range(6):\n  try: os.fstat(n)\n  except OSError: continue\n  sys.argv[1:] and open(sys.argv[1], 'a').write(f'{n} ')"
        out = self.directory / "open"
        subprocess.run(["bash", "-c", '"$@" <&- >&- 2>&- 5</dev/null', "bash", *self.words("/usr/bin/python3", "-c", look, out)],
                       env=self.environment, cwd=self.directory, timeout=60)
        bare = self.directory / "bare"
        subprocess.run(["bash", "-c", '"$@" <&- >&- 2>&- 5</dev/null', "bash", "/usr/bin/python3", "-c", look, bare], timeout=60)
        self.assertEqual(out.read_text(), bare.read_text())
        self.assertIn("5", out.read_text())

    def test_signals_are_passed_on_once(self):
        run = self.start(sys.executable, "-c", TELLS_SIGNALS)
        pid = int(run.stdout.readline().split()[1])
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGCONT):
            run.send_signal(number)
            self.assertEqual(run.stdout.readline().strip(), number.name)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(run.wait(timeout=30), -signal.SIGKILL)
        self.assertEqual(run.stdout.read(), "")

    def test_under_nohup_a_hangup_ends_nothing(self):
        process = subprocess.Popen(["nohup", *self.words("sh", "-c", "echo begun; read line; echo $line")], env=self.environment,
                                   cwd=self.directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "begun\n")
        process.send_signal(signal.SIGHUP)
        out, said = process.communicate("on\n", timeout=60)
        self.assertEqual((out, process.returncode), ("on\n", 0), said)

    def test_it_is_found_with_spaces_in_every_path(self):
        folder = self.directory / "a b"
        folder.mkdir()
        script = folder / "my train.py"
        script.write_text(PRINT_JOB)
        done = self.run_it(sys.executable, script, environment={**self.environment, "TRIMTAB_STATE": str(folder / "s t")})
        self.assert_watched(done, "my-train")

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv") and READABLE, "needs root, setpriv and a readable build")
    def test_a_user_who_is_not_root_is_watched(self):
        self.directory.chmod(0o777)
        done = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                               *self.words("/usr/bin/python3", "-c", PRINT_JOB, flags=["--name", "mine"])],
                              env=self.environment, cwd=self.directory, capture_output=True, text=True, timeout=60)
        self.assert_watched(done, "mine")
        self.assertEqual((self.state / "up.lock").stat().st_uid, NOBODY)

    def test_a_run_inside_a_run_changes_nothing(self):
        done = self.run_it("sh", "-c", f"'{TRIMTAB}' run -- {sys.executable} -c \"{PRINT_JOB}\"", flags=["--name", "outer"])
        self.assert_watched(done, "outer")


class Terminal(RunTest):
    """On a terminal of its own, with a shell that has job control."""

    def setUp(self):
        super().setUp()
        self.said = ""
        self.shell, self.terminal = pty.fork()
        if self.shell == 0:
            os.chdir(self.directory)
            os.execve("/bin/bash", ["bash", "--norc", "-i"], {**self.environment, "PS1": "$ ", "TERM": "dumb", "HISTFILE": ""})
        self.addCleanup(os.close, self.terminal)
        self.addCleanup(kill_hard, self.shell)
        self.expect(r"\$ ")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def expect(self, pattern, seconds=30):
        deadline = time.monotonic() + seconds
        os.set_blocking(self.terminal, False)
        while time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError, OSError):
                self.said += os.read(self.terminal, 4096).decode(errors="replace")
            found = re.search(pattern, self.said)
            if found:
                self.said = self.said[found.end():]
                return found
            time.sleep(0.02)
        raise AssertionError(f"no {pattern!r} in {self.said!r}")

    def test_ctrl_c_is_the_commands_once(self):
        (self.directory / "tells.py").write_text(TELLS_SIGNALS)
        self.type(f"'{TRIMTAB}' run -- {sys.executable} tells.py; echo code=$?\n")
        pid = int(self.expect(r"pid (\d+)").group(1))
        self.type("\x03")
        self.expect("SIGINT")
        time.sleep(0.3)
        self.type("\x03")
        self.expect("SIGINT")
        os.kill(pid, signal.SIGKILL)
        self.expect("code=137")
        self.assertNotIn("SIGINT", self.said)

    def test_ctrl_z_stops_both_and_fg_goes_on(self):
        (self.directory / "tells.py").write_text(TELLS_SIGNALS)
        self.type(f"'{TRIMTAB}' run -- {sys.executable} tells.py; echo code=$?\n")
        pid = int(self.expect(r"pid (\d+)").group(1))
        self.type("\x1a")
        self.expect("Stopped")
        self.assertEqual(state_of(pid), "T")
        self.expect(r"\$ ")
        self.type("fg\n")
        self.expect("SIGCONT")
        wait_until(lambda: state_of(pid) != "T", "the command goes on", 10)
        os.kill(pid, signal.SIGKILL)
        self.expect(r"Killed|\$ ")

    def test_the_command_reads_the_terminal(self):
        self.type(f"'{TRIMTAB}' run -- sh -c 'read line; echo got=$line'\n")
        time.sleep(1)
        self.type("typed\n")
        self.expect("got=typed")


class Shared(RunTest):
    WAITS = "import os, sys; print(os.environ.get('TRIMTAB_JOB', 'bare'), os.getpid(), flush=True); sys.stdin.read()"

    def begin(self, **others):
        run = subprocess.Popen(self.words(sys.executable, "-c", self.WAITS, flags=["--name", "twin"]), env={**self.environment, **others},
                               cwd=self.directory, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(run.communicate)  # which also closes what is open, as often as it is called
        self.addCleanup(run.kill)
        job, pid = run.stdout.readline().split()
        return run, job, int(pid)

    def end(self, run):
        run.communicate(timeout=30)
        self.assertEqual(run.returncode, 0)

    def test_two_at_once_share_the_daemons_and_the_last_one_ends_them(self):
        first, name, _ = self.begin()
        daemons = self.daemons()
        second, other, _ = self.begin()
        self.assertEqual((name, other), ("twin", "twin-2"))
        self.assertEqual(self.daemons(), daemons)
        self.end(first)
        self.assertTrue(all(not is_dead(pid) for pid in daemons))
        self.end(second)
        wait_until(lambda: all(is_dead(pid) for pid in daemons) and not self.daemons(), "the daemons' end", 20)

    def test_processes_of_one_launch_are_one_job(self):
        step = {"SLURM_JOB_ID": "9", "SLURM_STEP_ID": "0", "SLURM_NNODES": "1", "SLURM_NTASKS": "2"}
        runs = [self.begin(**step, SLURM_PROCID=str(rank)) for rank in range(2)]
        self.assertEqual([name for _, name, _ in runs], ["twin", "twin"])
        for run, _, _ in runs:
            self.end(run)

    def test_what_is_up_is_used_and_stays(self):
        subprocess.run([str(TRIMTAB), "up", "--state", str(self.state), "--port", "0"], check=True, capture_output=True, timeout=60)
        daemons = self.daemons()
        run, name, _ = self.begin()
        self.assertEqual((name, self.daemons()), ("twin", daemons))
        self.end(run)
        time.sleep(0.5)
        self.assertEqual(self.daemons(), daemons)
        self.assertTrue(all(not is_dead(pid) for pid in daemons))

    def test_up_keeps_what_a_run_has_started(self):
        run, _, _ = self.begin()
        daemons = self.daemons()
        subprocess.run([str(TRIMTAB), "up", "--state", str(self.state)], check=True, capture_output=True, timeout=60)
        self.end(run)
        time.sleep(0.5)
        self.assertTrue(all(not is_dead(pid) for pid in daemons))

    def test_a_run_that_is_killed_leaves_the_command_and_its_daemons_go_with_it(self):
        run, _, command = self.begin()
        daemons = self.daemons()
        kill_hard(run.pid)
        time.sleep(1)
        self.assertFalse(is_dead(command))
        self.assertTrue(all(not is_dead(pid) for pid in daemons))
        os.kill(command, signal.SIGKILL)
        wait_until(lambda: all(is_dead(pid) for pid in daemons), "the daemons' end", 20)

    def test_what_a_killed_keeper_has_left_the_next_run_takes_over(self):
        run, _, _ = self.begin()
        daemons = self.daemons()
        kill_hard(json.loads((self.state / "up.json").read_text())["owner"]["pid"])
        self.end(run)
        self.assertTrue(all(not is_dead(pid) for pid in daemons))
        again, name, _ = self.begin()
        self.assertNotEqual(name, "bare")
        self.assertEqual(self.daemons(), daemons)
        self.end(again)
        wait_until(lambda: all(is_dead(pid) for pid in daemons), "the daemons' end", 20)


class Bare(RunTest):
    """Whatever is missing, the command runs, and one line says why it is not watched."""

    def bare(self, *words, **changes):
        begun = time.monotonic()
        done = self.run_it(sys.executable, "-c", PRINT_JOB, environment={**self.environment, **changes})
        self.assertLess(time.monotonic() - begun, 8)
        self.assert_bare(done, *words)

    def test_without_a_home(self):
        self.environment = without("HOME", "XDG_STATE_HOME")
        self.bare("HOME")

    def test_where_the_state_cannot_be_written(self):
        self.bare("/proc/no", TRIMTAB_STATE="/proc/no/state")

    def test_where_the_daemons_end_at_once(self):
        (self.state / "coordinator").mkdir(parents=True)
        (self.state / "coordinator" / "coordinator.db").write_text("no database")
        self.bare("coordinator ended at once")

    def test_where_another_trimtab_holds_the_state(self):
        self.state.mkdir()
        with subprocess.Popen(["flock", str(self.state / "up.lock"), "cat"], stdin=subprocess.PIPE) as holder:
            wait_until(lambda: "FLOCK" in pathlib.Path("/proc/locks").read_text(), "the lock", 10)
            time.sleep(0.2)
            self.bare("takes longer than this one may wait")
            holder.stdin.close()

    def test_where_a_coordinator_is_named_that_does_not_answer(self):
        done = self.run_it(sys.executable, "-c", PRINT_JOB, flags=["--coordinator", "127.0.0.1:1"])
        self.assert_bare(done, "127.0.0.1:1")

    def test_where_no_agent_answers_at_the_socket_that_is_named(self):
        subprocess.run([str(TRIMTAB), "up", "--state", str(self.state), "--port", "0"], check=True, capture_output=True, timeout=60)
        done = self.run_it(sys.executable, "-c", PRINT_JOB, flags=["--agent-socket", "/no/socket"])
        self.assert_bare(done, "/no/socket")

    def test_where_the_programs_are_not_whole(self):
        for missing in ("lib/libtrimtab-inject.so", "bin/trimtab-agent", "bin/trimtab-coordinator", "lib/trimtab/python/watch_hook"):
            with self.subTest(missing=missing):
                place = self.directory / missing.replace("/", "-")
                for name in ("bin/trimtab", "bin/trimtab-agent", "bin/trimtab-coordinator", "lib/libtrimtab-inject.so"):
                    (place / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(BUILD / name, place / name)
                client = place / "lib" / "trimtab" / "python"
                shutil.copytree(ROOT / "client" / "python" / "watch_hook", client / "watch_hook")
                shutil.rmtree(place / missing) if (place / missing).is_dir() else (place / missing).unlink()
                done = subprocess.run([str(place / "bin" / "trimtab"), "run", "--", sys.executable, "-c", PRINT_JOB],
                                      env=self.environment, cwd=self.directory, capture_output=True, text=True, timeout=60)
                self.assert_bare(done, pathlib.Path(missing).name)

    def test_where_it_is_switched_off(self):
        self.bare("TRIMTAB=0", TRIMTAB="0")


class Card(RunTest):
    JOBS = pathlib.Path(__file__).parent

    @unittest.skipUnless(shutil.which("torchrun", path="/usr/bin"), "Debian's python3-torch is not installed")
    def test_the_card_comes_at_the_end_and_its_step_is_that_of_the_scripts_own_log(self):
        """Of a plain PyTorch job of two ranks, which knows nothing of Trimtab."""
        log = self.directory / "steps.log"
        begun = time.monotonic()
        done = self.run_it("sh", "-c", '"$@"; code=$?; touch ended; exit $code', "sh", "/usr/bin/torchrun", "--nproc_per_node", 2, *DEBIANS,
                           "--master_port", free_port(), self.JOBS / "watched_jobs" / "job.py", "--seconds", 8, "--log", log,
                           flags=["--out", "out dir"], timeout=150)
        took, ended = time.monotonic() - begun, time.time()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(took, 60, "from the job's start to its card")
        self.assertTrue((self.directory / "out dir" / "card.json").is_file(), done.stderr)
        self.assertLess(ended - (self.directory / "ended").stat().st_mtime, 5, "from the command's end to its card and the end of `run`")
        card = json.loads((self.directory / "out dir" / "card.json").read_text())
        self.assertEqual((card["schema"], card["job"], card["ranks"]), ("trimtab.card/1", "job", 2), done.stderr)
        own = statistics.median(float(line) for line in log.read_text().split()[5:])
        self.assertAlmostEqual(card["step_ms"]["median"] / own, 1, delta=0.05)
        text = (self.directory / "out dir" / "card.txt").read_text()
        self.assertIn(text.strip(), done.stderr)
        self.assertNotIn("trimtab", done.stdout)

    def test_the_cards_directory_is_named_after_the_job(self):
        with subprocess.Popen(["sleep", "4"], stdout=subprocess.PIPE) as clock:  # The rank ends with its input.
            done = self.run_it(sys.executable, self.JOBS / "watched_rank.py", stdin=clock.stdout,
                               environment={**self.environment, "RANK": "0", "WORLD_SIZE": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.directory / "trimtab-out" / "watched_rank" / "card.json").is_file(), done.stderr)

    def test_a_directory_that_cannot_be_written_is_said_before_the_command_starts(self):
        done = self.run_it("sh", "-c", "echo begun >&2", flags=["--out", "/proc/no"])
        self.assertEqual(done.returncode, 0)
        self.assertLess(done.stderr.index("/proc/no"), done.stderr.index("begun"), done.stderr)

    def test_a_command_without_a_step_says_what_was_looked_for_and_leaves_no_directory(self):
        done = self.run_it("sh", "-c", "exit 3", flags=["--name", "none"])
        self.assertEqual(done.returncode, 3)
        self.assertIn("no process of none was seen to train", done.stderr)
        self.assertIn("torch's optimizers", done.stderr)
        self.assertFalse((self.directory / "trimtab-out").exists())


class Attach(RunTest):
    def attach(self, *flags):
        return subprocess.run([str(TRIMTAB), "attach", "--state", str(self.state), *flags], env=self.environment, text=True,
                              capture_output=True, timeout=60)

    def test_the_environment_of_what_is_up_can_be_evaluated(self):
        self.assertEqual(self.attach("--coordinator", "127.0.0.1:1").returncode, 3)
        subprocess.run([str(TRIMTAB), "up", "--state", str(self.state), "--port", "0"], check=True, capture_output=True, timeout=60)
        printed = self.attach("--name", "pod")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        done = subprocess.run(["sh", "-c", f"{printed.stdout}\n{sys.executable} -c \"{PRINT_JOB}\""], env=self.environment, text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.stdout.strip(), "pod", done.stderr)
        values = json.loads(self.attach("--name", "pod", "--format", "json").stdout)
        self.assertTrue(pathlib.Path(values["TRIMTAB_SOCKET"]).is_socket())
        self.assertTrue(pathlib.Path(values["TRIMTAB_LIBRARY"]).is_file())
        self.assertIn("hostPath", self.attach("--format", "kubernetes").stdout)

    def test_processes_that_have_torch_and_lack_the_library_are_listed(self):
        libraries = sorted(pathlib.Path("/usr/lib").glob("*/libtorch_cpu.so*")) + sorted(
            pathlib.Path("/usr/lib/python3/dist-packages/torch").rglob("libtorch_cpu.so*"))
        if not libraries:
            self.skipTest("PyTorch is not installed")
        loaded = "import mmap, sys; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 4096, prot=mmap.PROT_READ); print(1, flush=True); sys.stdin.read()"
        with subprocess.Popen([sys.executable, "-c", loaded, str(libraries[0])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**self.environment, "RANK": "1", "WORLD_SIZE": "2"}) as process:
            process.stdout.readline()
            listed = json.loads(self.attach("--list", "--json").stdout)["processes"]
            process.stdin.close()
        mine = [one for one in listed if one["pid"] == process.pid]
        self.assertEqual([(one["rank"], one["world_size"]) for one in mine], [(1, 2)], listed)


if __name__ == "__main__":
    unittest.main()

"""The start of a rank that is prepared beside one that trains, by the hook alone: this test stands for the agent."""
import array
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HOOK = pathlib.Path(__file__).resolve().parents[2] / "client" / "python" / "watch_hook"
PROGRAM = """
import json, os, resource, signal, sys
import first.part
import second
import os as unused
class Defined:
    pass
def main():
    descriptors = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            descriptors[name] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            pass
    print("said", sys.stdin.read() == "", sys.stdout.fileno())
    with open(os.environ["FACTS"], "w") as file:
        json.dump({
            "argv": sys.argv, "orig_argv": getattr(sys, "orig_argv", None), "environment": dict(os.environ), "path": sys.path,
            "directory": os.getcwd(), "mask": os.umask(0o022), "limits": [resource.getrlimit(one) for one in range(16)],
            "signals": [str(signal.getsignal(one)) for one in range(1, 65)], "blocked": [int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
            "leads": os.getpid() == os.getpgrp(), "session": os.getsid(0), "descriptors": descriptors,
            "policy": os.sched_getscheduler(0), "nice": os.nice(0), "score": open("/proc/self/oom_score_adj").read(),
            "threads": len(os.listdir("/proc/self/task")), "main": [str(globals().get(name)) for name in ("__name__", "__file__", "__package__")], "spec": getattr(__spec__, "name", None),
            "finders": [getattr(one, "__name__", type(one).__name__) for one in sys.meta_path if "trimtab" not in str(type(one))], "seen": first.part.seen, "order": first.order,
        }, file)
    if "fail" in sys.argv:
        raise ValueError("on purpose")
if __name__ == "__main__":
    main()
"""
FIRST = "order = []\nimport os\nos.environ['SET_BY_FIRST'] = 'yes'\nprint('first is imported')\n"
PART = "import sys\nimport first\nfirst.order.append('part')\nseen = hasattr(sys.modules['__main__'], '__file__')\n"
SECOND = "import first\nfirst.order.append('second')\n"


class Prepared(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="prepared-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.notes, self.log, self.facts = (self.folder / name for name in ("imports", "log", "facts"))
        self.packages = self.folder / "site-packages"
        self.write("site-packages/first/__init__.py", FIRST)
        self.write("site-packages/first/part.py", PART)
        self.write("site-packages/second.py", SECOND)
        self.program = self.write("program.py", PROGRAM)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def environment(self, **more):
        return {"PATH": os.environ["PATH"], "PYTHONPATH": f"{HOOK}:{self.packages}", "PYTHONDONTWRITEBYTECODE": "1",
                "FACTS": str(self.facts), "TRIMTAB_IMPORTS": str(self.notes), **more}

    def start(self, words, environment, output, kept=()):
        return subprocess.Popen(words, env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=kept,
                                process_group=0)

    def bare(self, *words, **more):
        with open(self.log, "w+b", buffering=0) as log:
            code = self.start(words, self.environment(**more), log).wait(timeout=60)
        return code, self.log.read_text(), self.read_facts()

    def read_facts(self):
        facts = json.loads(self.facts.read_text()) if self.facts.exists() else None
        self.facts.unlink(missing_ok=True)
        return facts

    @contextlib.contextmanager
    def waiting(self, *words, **more):
        """A process that is prepared, and the end of its channel; killed where it is left."""
        ours, theirs = socket.socketpair()
        printed = os.memfd_create("printed")
        environment = self.environment(TRIMTAB_HELD=str(theirs.fileno()), **more)
        process = self.start(words, environment, printed, (theirs.fileno(),))
        theirs.close()
        os.close(printed)
        ours.settimeout(0.1)
        self.process = process
        try:
            yield process, ours
        finally:
            ours.close()
            if process.poll() is None:
                process.kill()
            process.wait()

    def hear(self, channel, word):
        said = b""
        while not any(line.startswith(word) for line in said.split(b"\n")[:-1]):
            self.raise_priority()
            try:
                part = channel.recv(4096)
            except TimeoutError:
                continue
            self.assertTrue(part, said)
            said += part
        return said.decode()

    def raise_priority(self):
        """As the agent does when a launch comes: at idle priority nothing ends on a busy machine."""
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setscheduler(int(task), os.sched_getscheduler(0), os.sched_param(0))

    def release(self, channel, arguments, **more):
        told = os.memfd_create("told")
        environment = self.environment(**more)
        texts = [str(len(arguments)), *arguments, *(f"{name}={value}" for name, value in environment.items())]
        os.write(told, b"".join(os.fsencode(text) + b"\0" for text in texts))
        with open(self.log, "w+b", buffering=0) as log:
            channel.sendmsg([b"1"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [log.fileno(), told]))])
        os.close(told)
        self.raise_priority()

    def prepared(self, words, arguments, **more):
        with self.waiting(*words, LAUNCH="1") as (process, channel):
            self.hear(channel, b"ready")
            self.assertFalse(self.facts.exists())
            self.release(channel, arguments, **more)
            channel.close()
            return process.wait(timeout=60), self.log.read_text(), self.read_facts()

    def both(self, words, arguments):
        bare = self.bare(*words, *arguments, LAUNCH="2", ADDED="x=y")
        return bare, self.prepared(words, arguments, LAUNCH="2", ADDED="x=y")

    def test_a_prepared_launch_is_a_bare_one_to_its_program(self):
        self.write("module.py", PROGRAM)
        arguments = ["--batch", "8", "", "a b", "caf\u00e9"]
        for words in ([sys.executable, str(self.program)], [sys.executable, "-W", "ignore", "program.py"], [sys.executable, "-m", "module"]):
            with self.subTest(words[1:]):
                bare, prepared = self.both(words, arguments)
                self.assertEqual(bare[0], 0, bare)
                self.assertEqual(prepared, bare)
                self.assertEqual(bare[2]["argv"][1:], arguments)
                self.assertEqual(bare[2]["order"], ["part", "second"])
                self.assertEqual(bare[1].splitlines()[0], "first is imported")
                self.assertNotIn("TRIMTAB_HELD", prepared[2]["environment"])

    def test_a_program_that_fails_says_so_in_the_same_words(self):
        bare, prepared = self.both([sys.executable, str(self.program)], ["fail"])
        self.assertEqual((prepared[0], prepared[1]), (bare[0], bare[1]))
        self.assertEqual(bare[0], 1)
        self.assertIn("ValueError: on purpose", bare[1])

    def noted(self, program):
        self.program.write_text(program)
        code, said, _ = self.bare(sys.executable, str(self.program))
        self.assertEqual(code, 0, said)
        return [line.split("'")[1] for line in self.notes.read_text().splitlines()[1:]]

    def test_what_is_imported_after_the_program_has_begun_to_act_is_not_noted(self):
        self.write("own.py", "import first\nOWN = 1\n")
        self.write("acting.py", "import first\nfirst.order.append(1)\nimport second\n")
        for program, expected in (
            ("import first\nimport second\n", ["first", "second"]),
            ("import own\nimport second\n", ["first", "second"]),  # Its own file is no package.
            ("import sys\nsys.path.append('.')\nif True:\n    import second\n", ["second"]),
            ("try:\n    import missing\nexcept ImportError:\n    missing = None\nimport second\n", ["second"]),
            ("import first\nfirst.other = None\nimport first.part\n", ["first"]),
            ("import os\nos.environ['A'] = '1'\nimport first\n", []),
            ("import first\nos = first.order.append(1)\nimport second\n", ["first", "second"]),
            ("import acting\n", ["first"]),
            ("import first\ndef late():\n    import second\nlate()\n", ["first"]),
            ("import first\nx = first.__dict__['os'].putenv('B', '1') or first.os.environ.update(C='1')\nimport second\n", ["first"]),
        ):
            with self.subTest(program):
                own = [name for name in self.noted(program) if name in ("first", "first.part", "second")]
                self.assertEqual(own, expected)

    def test_processes_that_a_rank_starts_note_nothing(self):
        child = self.write("child.py", "import second\n")
        program = f"import subprocess, sys\nimport first\ndef run():\n    subprocess.run([sys.executable, {str(child)!r}], start_new_session=True, check=True)\nrun()\n"
        self.assertNotIn("second", self.noted(program))

    def test_a_package_that_opens_a_device_is_left_out_of_the_next_attempt(self):
        device = self.write("dev/nvidia0", "")
        self.write("site-packages/second.py", f"import first\nopened = open({str(device)!r})\nfirst.order.append('second')\n")
        words = [sys.executable, str(self.program)]
        bare = self.bare(*words, LAUNCH="2")
        with self.waiting(*words) as (process, channel):
            said = self.hear(channel, b"failed")
            self.assertIn("importing second opens", said)
            self.assertEqual(process.wait(timeout=60), 1)
        with self.waiting(*words) as (process, channel):
            self.hear(channel, b"ready")
            opened = [os.readlink(f"/proc/{process.pid}/fd/{name}") for name in os.listdir(f"/proc/{process.pid}/fd")]
            self.assertFalse([path for path in opened if "/dev/nvidia" in path], opened)
            self.release(channel, [], LAUNCH="2")
            channel.close()
            self.assertEqual(process.wait(timeout=60), 0)
            self.assertEqual(self.read_facts()["order"], bare[2]["order"])

    def test_a_process_that_nobody_wants_any_more_ends_and_has_run_nothing(self):
        self.bare(sys.executable, str(self.program))
        with self.waiting(sys.executable, str(self.program)) as (process, channel):
            self.hear(channel, b"ready")
            channel.close()
            self.assertEqual(process.wait(timeout=60), 0)
        self.assertIsNone(self.read_facts())

    def test_where_something_is_wrong_nothing_is_run(self):
        words = [sys.executable, str(self.program)]
        with self.waiting(*words) as (process, channel):  # No notes.
            self.assertIn("FileNotFoundError", self.hear(channel, b"failed"))
            self.assertEqual(process.wait(timeout=60), 1)
        self.bare(*words)
        self.write("site-packages/second.py", "raise SystemExit('not now')\n")
        with self.waiting(*words) as (process, channel):
            self.assertIn("SystemExit: not now", self.hear(channel, b"failed"))
            self.assertEqual(process.wait(timeout=60), 1)
        self.assertIsNone(self.read_facts())

    def test_a_process_that_is_told_its_launch_while_it_imports_goes_on_behind_them(self):
        words = [sys.executable, str(self.program)]
        bare = self.bare(*words, "--x", LAUNCH="2")
        gate = self.folder / "gate"
        os.mkfifo(gate)
        self.write("site-packages/second.py", SECOND + f"import sys\nif len(sys.argv) == 1:\n    open({str(gate)!r}).read()\n")
        with self.waiting(*words, LAUNCH="1") as (process, channel):
            self.hear(channel, b"here")
            with open(gate, "w") as opened:  # It imports.
                self.release(channel, ["--x"], LAUNCH="2")
                channel.close()  # As the agent does: nobody reads what the process says from here on.
                opened.write("go on")
            self.assertEqual((process.wait(timeout=60), self.log.read_text(), self.read_facts()), bare)

    def test_what_goes_wrong_once_it_is_told_is_the_programs_own(self):
        words = [sys.executable, str(self.program)]
        self.bare(*words)
        gate = self.folder / "gate"
        os.mkfifo(gate)
        self.write("site-packages/second.py", f"import sys\nif not hasattr(sys, 'gone_on'):\n    sys.gone_on = True\n    open({str(gate)!r}).read()\n"
                                              "raise ValueError('each time')\n")
        with self.waiting(*words) as (process, channel):
            self.hear(channel, b"here")
            with open(gate, "w") as opened:  # It imports.
                self.release(channel, [])
                opened.write("go on")
            self.assertEqual(process.wait(timeout=60), 1)
            self.assertIn("program.py\", line 4, in <module>", self.log.read_text())
            self.assertIn("ValueError: each time", self.log.read_text())

    def test_imports_run_at_idle_priority_or_rest(self):
        self.bare(sys.executable, str(self.program))
        self.write("site-packages/second.py", "import time\nimport first\nbegun = time.thread_time()\nwhile time.thread_time() < begun + 0.2:\n"
                                              "    try:\n        import missing\n    except ImportError:\n        pass\n")
        with self.waiting(sys.executable, str(self.program)) as (process, channel):
            channel.setblocking(False)
            begun = time.monotonic()
            policies = set()
            while process.poll() is None and b"ready" not in self.peek(channel):
                policies.add(os.sched_getscheduler(process.pid))
                if os.SCHED_IDLE in policies:
                    self.raise_priority()
            took = time.monotonic() - begun
            self.assertTrue(os.SCHED_IDLE in policies or took > 0.8, (policies, took))
            self.assertEqual(os.sched_getscheduler(process.pid), os.sched_getscheduler(0))

    def peek(self, channel):
        try:
            return channel.recv(4096, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b""

    def test_a_prepared_process_can_be_ended_by_any_signal(self):
        self.bare(sys.executable, str(self.program))
        with self.waiting(sys.executable, str(self.program)) as (process, channel):
            self.hear(channel, b"ready")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=60), -signal.SIGTERM)
        self.assertIsNone(self.read_facts())


if __name__ == "__main__":
    unittest.main()

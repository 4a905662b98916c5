"""Bad input and faults as people meet them: one clear error that says what to do, a non-zero exit, nothing stored lost."""

import subprocess
import unittest

from installation import BUILD, PLAIN, TRIMTAB, Installation, replace_in

COORDINATOR = BUILD / "bin" / "trimtab-coordinator"
AGENT = BUILD / "bin" / "trimtab-agent"


def start(program, *arguments, state):
    """Starts a daemon that is expected to give up; its exit code and what it said."""
    done = subprocess.run([str(program), *arguments, "--state", str(state)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def mounted(script):
    """The exit code and words of a shell script in a mount namespace of its own, where $DISK is 256 KiB; None where that is forbidden."""
    head = "set -e; DISK=$(mktemp -d); mount -t tmpfs -o size=256k none $DISK; "
    for flags in (["-m"], ["-rm"]):
        if subprocess.run(["unshare", *flags, "true"], capture_output=True).returncode == 0:
            done = subprocess.run(["unshare", *flags, "sh", "-c", head + script], capture_output=True, text=True, timeout=60)
            return done.returncode, done.stderr
    return None


FILL = "(cat /dev/zero > $DISK/ballast) 2>/dev/null || true; "


class Faults(unittest.TestCase):
    def one_error(self, outcome, code, *words):
        found, said = outcome
        self.assertEqual(found, code, said)
        lines = [line for line in said.splitlines() if line.startswith("trimtab")]
        self.assertEqual(len(lines), 1, said)
        for word in words:
            self.assertIn(word, lines[0])

    def in_namespace(self, script):
        outcome = mounted(script)
        if outcome is None:
            self.skipTest("this user may not make a mount namespace")
        return outcome

    def tune(self, trimtab, job):
        done = trimtab.run("tune", "--job", job, "--state", trimtab.state, "--out", trimtab.out, check=False)
        return done.returncode, done.stderr

    def test_a_command_that_does_not_exist(self):
        for command in ("describe", "benchmark", "train"):
            with self.subTest(command), Installation() as trimtab:
                job = trimtab.write_job(MEMORY="1GiB", plain=PLAIN)
                replace_in(job, {f'{command} = ["/usr/bin/python3"': f'{command} = ["no-such-python"'})
                code, said = self.tune(trimtab, job)
                self.assertEqual(code, 3, said)
                self.assertIn("no-such-python", said.splitlines()[-1])

    def test_an_initial_plan_that_does_not_fit_the_cluster(self):
        with Installation() as trimtab:
            job = trimtab.write_job(MEMORY="1GiB", plain=PLAIN)
            (trimtab.directory / "initial.json").write_text(
                '{"schema": "trimtab.plan/1", "model": "soak", "global_batch": 8, "microbatch": 1,'
                ' "stages": [{"devices": [0, 5], "segments": [{"operators": [0, 4], "dp": 2}]}]}')
            job.write_text(job.read_text().replace("steps = 100000", f'steps = 100000\ninitial_plan = "{trimtab.directory}/initial.json"'))
            code, said = self.tune(trimtab, job)
            self.assertEqual(code, 3, said)
            self.assertIn("the initial plan cannot be executed", said.splitlines()[-1])
            self.assertIn("5", said.splitlines()[-1])

    def test_a_malformed_job_file(self):
        with Installation() as trimtab:
            job = trimtab.write_job(MEMORY="1GiB")
            job.write_text(job.read_text().replace("measure_steps = 6", "measure_step = 6"))
            self.one_error(self.tune(trimtab, job), 2, "job.toml:", "measure_step", "measure_steps")
            self.assertFalse(trimtab.state.exists())

    def test_a_second_coordinator_on_the_same_state(self):
        with Installation() as trimtab:
            running = trimtab.up()
            outcome = start(COORDINATOR, "--listen", "127.0.0.1:0", state=trimtab.state / "coordinator")
            self.one_error(outcome, 3, f"process {running['coordinator']}")
            trimtab.run("status", "--state", trimtab.state)

    def test_a_port_in_use(self):
        with Installation() as trimtab:
            port = trimtab.up()["port"]
            outcome = start(COORDINATOR, "--listen", f"127.0.0.1:{port}", state=trimtab.directory / "other")
            self.one_error(outcome, 3, str(port), "choose another port")

    def test_foreign_newer_and_damaged_databases_of_a_coordinator(self):
        with Installation() as trimtab:
            trimtab.up()
            trimtab.run("down", "--state", trimtab.state)
            state = trimtab.state / "coordinator"
            for name in ("costs.db", "coordinator.db"):
                whole = (state / name).read_bytes()
                newer = bytearray(whole)
                newer[60:64] = (99).to_bytes(4, "big")
                for what, found, word in (("foreign", b"somebody's file\n" * 20, "is not a"), ("newer", bytes(newer), "version 99")):
                    with self.subTest(name, what=what):
                        (state / name).write_bytes(found)
                        outcome = start(COORDINATOR, "--listen", "127.0.0.1:0", state=state)
                        self.one_error(outcome, 2, name, word, "nothing was changed")
                        self.assertEqual((state / name).read_bytes(), found)
                (state / name).write_bytes(whole)

    def test_a_full_disk_stops_a_daemon_at_its_start(self):
        coordinator = f"exec {COORDINATOR} --listen 127.0.0.1:0 --state $DISK/state"
        agent = f"exec {AGENT} --coordinator 127.0.0.1:1 --node n --socket $DISK/s --metrics-port 0 --state $DISK/state"
        for program in (coordinator, agent):
            with self.subTest(program):
                self.one_error(self.in_namespace("mkdir -p $DISK/state; " + FILL + program), 3, "disk")

    def test_a_full_disk_stops_a_merge_and_the_target_keeps_what_it_has(self):
        with Installation() as trimtab:
            source = self.some_costs(trimtab)
            merge = f"cp {source} $DISK/costs.db; {FILL} set +e; {TRIMTAB} db merge $DISK/costs.db {source}; code=$?; "
            outcome = self.in_namespace(merge + f"cmp $DISK/costs.db {source} || exit 98; exit $code")
            self.one_error(outcome, 3, "disk")

    def test_a_read_only_cost_database(self):
        with Installation() as trimtab:
            source = self.some_costs(trimtab)
            read_only = f"cp {source} $DISK/costs.db; mount -o remount,ro $DISK; "
            self.one_error(self.in_namespace(read_only + f"exec {TRIMTAB} db merge $DISK/costs.db {source}"), 3,
                           "Read-only file system", "give another path")
            code, said = self.in_namespace(read_only + f"exec {TRIMTAB} db show $DISK/costs.db")
            self.assertEqual(code, 0, said)
            self.one_error(self.in_namespace(read_only + f"exec {COORDINATOR} --listen 127.0.0.1:0 --state $DISK"), 3,
                           "Read-only file system")

    def some_costs(self, trimtab):
        """A database as a coordinator makes it, closed."""
        trimtab.up()
        trimtab.run("down", "--state", trimtab.state)
        return trimtab.state / "coordinator" / "costs.db"


if __name__ == "__main__":
    unittest.main()

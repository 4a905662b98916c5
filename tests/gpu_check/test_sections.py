"""Sections with programs that stand for a GPU's, and the real daemons where they are built."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from harness import BIN, HAS_PYTORCH, LIB, SCRIPT, ManualClock, load_script

from gpu_check import arms, checks, child, machine, sections
from gpu_check.installation import Daemons, Installation, grown, sums
from gpu_check.sections import Budget, Failed, NotShown, Skipped
from gpu_check.trainer import Trainer


class Running(unittest.TestCase):
    def test_each_section_ends_in_its_own_way(self):
        clock = ManualClock()

        def passes(budget):
            clock.now += 3
            return {"figure": 1}

        def fails(budget):
            raise Failed("wrong", {"seen": 2})

        def skips(budget):
            raise Skipped("not here")

        def breaks(budget):
            return {}["missing"]

        def unsure(budget):
            raise NotShown("too wide", {"seen": 3})
        documents = [sections.run(work.__name__, 10, work, clock) for work in (passes, fails, skips, breaks, unsure)]
        self.assertEqual([one["status"] for one in documents], ["passed", "failed", "skipped", "failed", "not shown"])
        self.assertEqual(documents[4]["result"], {"seen": 3})
        self.assertEqual(documents[0]["seconds"], 3)
        self.assertEqual(documents[0]["result"], {"figure": 1})
        self.assertEqual(documents[1]["result"], {"seen": 2})
        self.assertIn("KeyError", documents[3]["reason"])
        json.dumps(documents)


class Children(unittest.TestCase):
    def test_output_or_the_reason(self):
        self.assertEqual(child.run(["echo", "a"], Budget(10)), "a\n")
        with self.assertRaisesRegex(Failed, "ended with 4: no GPU"):
            child.run(["sh", "-c", "echo no GPU >&2; exit 4"], Budget(10))

    def test_several_at_once_end_together(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            # Each needs the other.
            writes, reads = ["sh", "-c", f"echo a > {pipe}; echo b"], ["cat", pipe]
            self.assertEqual(child.run_together([(writes, None), (reads, None)], Budget(10)), ["b\n", "a\n"])
            pid_file = os.path.join(folder, "pid")
            waits = ["sh", "-c", f"echo $$ > {pid_file}; cat {pipe}"]
            fails = ["sh", "-c", f"while [ ! -s {pid_file} ]; do :; done; echo no GPU >&2; exit 4"]
            with self.assertRaisesRegex(Failed, "ended with 4: no GPU"):
                child.run_together([(fails, None), (waits, None)], Budget(10))
            self.assertFalse(os.path.exists(f"/proc/{pathlib.Path(pid_file).read_text().strip()}"))

    def test_what_takes_too_long_is_ended_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            pid_file = os.path.join(folder, "pid")
            with self.assertRaisesRegex(Failed, "did not end within"):
                child.run(["sh", "-c", f"sleep 60 & echo $! > {pid_file}; wait"], Budget(0.5))
            pid = int(pathlib.Path(pid_file).read_text())
            state = pathlib.Path(f"/proc/{pid}/stat")
            deadline = time.monotonic() + 10  # Its parent is gone; the signal reaches it a moment later on a busy machine.
            while self.runs(state) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertFalse(self.runs(state))

    @staticmethod
    def runs(state):
        try:
            return state.read_text().split()[2] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False


class Metrics(unittest.TestCase):
    def test_a_page_is_summed_over_labels(self):
        page = '# HELP a b\na{x="1"} 2\na{x="2"} 3\nb 1.5\n'
        self.assertEqual(sums(page), {"a": 5.0, "b": 1.5})
        self.assertEqual(grown({"a": 2.0}, {"a": 5.0}, "a"), 3)
        with self.assertRaisesRegex(Failed, "no metric c"):
            grown({}, {"a": 5.0}, "c")


class Libcupti(unittest.TestCase):
    def test_the_toolkit_of_nvcc_comes_first_then_pythons_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path in ("cuda/bin/nvcc", "cuda/extras/CUPTI/lib64/libcupti.so.13", "site/nvidia/cu13/lib/libcupti.so.12"):
                (root / path).parent.mkdir(parents=True)
                (root / path).write_text("")
            nvcc, site = str(root / "cuda/bin/nvcc"), [str(root / "site")]
            self.assertEqual(machine.libcupti(nvcc, site), (root / "cuda/extras/CUPTI/lib64/libcupti.so.13").resolve())
            (root / "cuda/extras/CUPTI/lib64/libcupti.so.13").unlink()
            self.assertEqual(machine.libcupti(nvcc, site), root / "site/nvidia/cu13/lib/libcupti.so.12")
            self.assertIsNone(machine.libcupti(nvcc, []))

    def test_only_injected_programs_are_told_of_it(self):
        installation = Installation("/nowhere", "/nowhere", "/nowhere")
        with mock.patch.object(machine, "libcupti", lambda: pathlib.Path("/x/libcupti.so.13")):
            self.assertEqual(installation.bench_environment({}), {})
            added = arms.environment("kernels only", pathlib.Path("/lib.so"), "/socket")
            told = installation.bench_environment(added)
        self.assertEqual(told, {**added, "TRIMTAB_CUPTI_LIBRARY": "/x/libcupti.so.13"})


class FakeDaemons(Daemons):
    """Pages of metrics, one for each time that things have settled."""

    def __init__(self, kernels, dropped=0):
        self.socket = "/nowhere"
        self._pages = []
        for count in kernels:
            self._pages.append({"trimtab_agent_kernels_total": count, "trimtab_agent_records_dropped_total": 0.0,
                                "trimtab_agent_records_malformed_total": 0.0, "trimtab_agent_records_skipped_total": 0.0})
        self._pages[-1]["trimtab_agent_records_dropped_total"] = dropped

    def settled(self, budget, quiet_s=0):
        return self._pages.pop(0)


def chain_line(kernels, graph_launches, graph):
    return json.dumps({"chain": {"kernel_ns": 5000, "graph": graph, "kernels": kernels, "graph_launches": graph_launches}})


class Records(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        (self.folder / "bin").mkdir()
        self.installation = Installation(self.folder, "/nowhere", "/nowhere")
        plain, graph = chain_line(1001, 0, False), chain_line(20000, 45, True)
        self.installation.bench.write_text(
            f"#!/bin/sh\ncase \"$*\" in *--graph*) echo '{plain}'; echo '{graph}';; *) echo '{plain}';; esac\n")
        self.installation.bench.chmod(0o755)

    def check(self, kernels, dropped=0):
        return checks.records(self.installation, FakeDaemons(kernels, dropped), dict(os.environ), Budget(10))

    def test_equal_totals_pass(self):
        counts = self.check([10, 1011, 1011, 1011 + 1001 + 46])
        self.assertEqual(counts["graphs"]["launched"], 1047)

    def test_missing_records_and_losses_fail(self):
        with self.assertRaisesRegex(Failed, "kernels: 1000 of 1001 recorded"):
            self.check([10, 1010, 1010, 1010 + 1047])
        with self.assertRaisesRegex(Failed, "lost 3"):
            self.check([10, 1011, 1011, 1011 + 1047], dropped=3.0)


class Pytorch(unittest.TestCase):
    """The process that others are forked from, with a PyTorch that has no GPU."""

    def test_a_failed_run_says_why_and_the_next_is_answered_too(self):
        if not HAS_PYTORCH:
            self.skipTest(f"{sys.executable} has no PyTorch")
        with tempfile.NamedTemporaryFile("w") as log:
            trainer = Trainer(dict(os.environ), log)
            try:
                for _ in range(2):
                    with self.assertRaisesRegex(Failed, "Error|RuntimeError"):
                        trainer.run(dict(os.environ), {}, Budget(60), "profiled")
                with self.assertRaisesRegex(Failed, "within the budget"):
                    trainer.run(dict(os.environ), {}, Budget(0), "profiled")
                with self.assertRaisesRegex(Failed, "KeyError: 'teleport'"):
                    trainer.run(dict(os.environ), {}, Budget(60), "teleport")
            finally:
                trainer.close()
            with self.assertRaisesRegex(Failed, "is gone"):
                trainer = Trainer({**os.environ, "PYTHONHOME": "/nowhere"}, log)
                try:
                    trainer.run({}, {}, Budget(30), "profiled")
                finally:
                    trainer.close()


# Of Megatron-LM what the program touches: a loop around the train_step of a module.
TRAIN_STEP = "def train_step(*arguments, **named):\n    return 1\n"
PRETRAIN = """
import sys
from megatron.training import training
assert sys.argv[1:] == ["--micro-batch-size", "1"]
while True:
    training.train_step()
"""


class StepPrograms(unittest.TestCase):
    """The programs whose steps are timed, on the CPU."""

    def trainers(self, count):
        if not HAS_PYTORCH:
            self.skipTest(f"{sys.executable} has no PyTorch")
        log = self.enterContext(tempfile.NamedTemporaryFile("w"))
        started = [Trainer({**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}, log) for _ in range(count)]
        for one in started:
            self.addCleanup(one.close)
        return started

    def in_order(self, taken):
        self.assertTrue(all(begin <= end for begin, end in taken))
        self.assertTrue(all(one[1] <= other[0] for one, other in zip(taken, taken[1:])))

    def test_megatrons_steps_until_enough_seconds_have_passed(self):
        trainer, = self.trainers(1)
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder) / "megatron" / "training"
            package.mkdir(parents=True)
            (package / "training.py").write_text(TRAIN_STEP)
            (pathlib.Path(folder) / "pretrain_gpt.py").write_text(PRETRAIN)
            settings = {"source": folder, "arguments": ["--micro-batch-size", "1"], "warm_steps": 3, "seconds": 0.1, "device": "cpu"}
            trainer.start(dict(os.environ), "megatron", settings)
            self.assertTrue(trainer.answered(60))
            taken = trainer.finish(Budget(60))["steps"]
        self.in_order(taken)
        self.assertGreater(taken[-1][1] - taken[0][0], 0.1e9)

    def test_loops_of_two_ranks_end_together(self):
        trainers = self.trainers(2)
        with tempfile.TemporaryDirectory() as folder:
            for rank, trainer in enumerate(trainers):
                settings = {"rank": rank, "world_size": 2, "store": f"{folder}/store", "device": "cpu", "sizes": [1 << 12, 1 << 14],
                            "count": 2, "seconds": 0.1 * (1 + rank)}
                trainer.start({**os.environ, "GLOO_SOCKET_IFNAME": "lo"}, "loops", settings)
            told = [trainer.finish(Budget(60))["groups"] for trainer in trainers]
        self.assertEqual([len(groups["4096"]) for groups in told], [len(told[0]["16384"])] * 2)
        self.in_order(sorted(told[0]["4096"] + told[0]["16384"]))


class RealDaemons(unittest.TestCase):
    def test_they_come_up_answer_and_end(self):
        missing = [name for name in ("trimtab", "trimtab-agent", "trimtab-coordinator") if not (BIN / name).exists()]
        if missing:
            self.skipTest(f"{BIN} lacks {missing}")
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder) / "build"
            (build / "bin").mkdir(parents=True)
            (build / "bin" / "trimtab-gpu-bench").write_text("#!/bin/sh\n")
            os.symlink(LIB, build / "lib")
            installation = Installation(pathlib.Path(folder) / "installed", BIN, build)
            self.assertIn("libtrimtab-inject.so", installation.assemble()["libraries"])
            with installation.daemons() as daemons:
                page = daemons.settled(Budget(20), quiet_s=0.2)
                self.assertIn("trimtab_agent_records_total", page)
            with self.assertRaises(OSError):
                daemons.metrics()

    def test_programs_that_were_not_brought_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(Failed, "lacks trimtab, trimtab-agent"):
                Installation(folder, "/nowhere", "/nowhere").assemble()


class Driver:
    """libcuda as no_gpu() sees it."""

    def __init__(self, init=0, count=0, gpus=1):
        self.cuInit = lambda flags: init
        self._count, self._gpus = count, gpus

    def cuDeviceGetCount(self, count):
        count._obj.value = self._gpus
        return self._count


class Machine(unittest.TestCase):
    def test_why_there_is_no_gpu(self):
        def missing(name):
            raise OSError(name)
        self.assertIn("no NVIDIA driver", machine.no_gpu(missing))
        self.assertIn("cuInit gave 803", machine.no_gpu(lambda name: Driver(init=803)))
        self.assertIn("sees no GPU", machine.no_gpu(lambda name: Driver(count=3)))
        self.assertIn("sees no GPU", machine.no_gpu(lambda name: Driver(gpus=0)))
        self.assertEqual(machine.no_gpu(lambda name: Driver()), "")

    def test_children_have_the_python_that_was_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder) / "python3"
            self.assertEqual(machine.with_this_python({"PATH": "/bin"}, f"{folder}/python3.12")["PATH"], "/bin")
            python.touch()
            there = machine.with_this_python({"PATH": "/bin", "A": "b"}, f"{folder}/python3.12")
            self.assertEqual(there, {"PATH": f"{folder}:/bin", "A": "b"})


class Script(unittest.TestCase):
    def run_script(self, *words):
        return subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, timeout=60, check=False)

    def test_a_dry_run_measures_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_script("--dry-run", "--out", f"{folder}/out")
            self.assertEqual(done.returncode, 3)
            self.assertIn("no GPU figure will be measured", done.stdout)
            self.assertRegex(done.stdout, r"\n  records +15 s  not run\n")
            self.assertIn("--sections prediction-megatron", done.stdout)
            self.assertFalse(os.path.exists(f"{folder}/out"))

    def test_every_section_is_in_one_call_that_fits_a_session(self):
        script = load_script()
        grouped = ["build", "device", *(name for group in script.GROUPS for name in group)]
        self.assertEqual(sorted(grouped), sorted(script.BUDGETS))
        self.assertLessEqual(max(script.call_of(group)[0] for group in script.GROUPS), 600)
        self.assertLessEqual(max(script.BUDGETS.values()), 300)
        self.assertEqual(script.arguments([]).wanted, ["build", "device", *script.GROUPS[0]])
        text = self.run_script("--help").stdout
        for group in script.GROUPS:
            self.assertIn(f"--sections {','.join(group)}", text)

    def test_packages_that_were_brought_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/only_here")
            self.assertFalse(machine.has_package("only_here", machine.with_packages({}, f"{folder}/none")))
            self.assertTrue(machine.has_package("only_here", machine.with_packages({}, folder)))
            self.assertEqual(machine.with_packages({"PYTHONPATH": "/a"}, folder)["PYTHONPATH"], f"{folder}:/a")

    def test_an_unknown_section_is_refused(self):
        done = self.run_script("--sections", "records,teleport")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no section teleport", done.stderr)


if __name__ == "__main__":
    unittest.main()

"""Megatron-LM's script tells of its steps, whatever its train_step returns, and runs as it would without."""
import io
import os
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENT = os.path.join(ROOT, "client", "python")
sys.path.insert(0, CLIENT)

from test_client import Agent
from trimtab.megatron import MODULES, Steps

LOSSES = {"lm loss": 2.0, "mtp_1 loss": 4.0}


class Told:
    """A client that keeps what it is told."""

    def __init__(self):
        self.began = []
        self.steps = []

    def connect(self, step):
        self.began.append(step)
        return self

    def step(self, step, **values):
        self.steps.append((step, values["loss"], values["gradient_norm"]))
        assert values["wall_ns"] > 0 and values["peak_bytes"] is None


class Wrapped(unittest.TestCase):
    def setUp(self):
        self.client = Told()
        self.said = io.StringIO()
        self.args = types.SimpleNamespace(iteration=7, curr_iteration=7)
        self.steps = Steps(self.client.connect, self.said)

    def train_step(self, function):
        """As Megatron-LM's module has it once that is loaded."""
        module = types.SimpleNamespace(__name__=MODULES[0], train_step=function, get_args=lambda: self.args)
        self.steps.loaded(module)
        return module.train_step

    def returning(self, *values):
        """What is told of two steps that return this; they return it unchanged."""
        train_step = self.train_step(lambda batch: values)
        for _ in range(2):
            self.assertIs(train_step("batch"), values)
            self.args.curr_iteration += 1
        return self.client.steps

    def test_four_values_of_megatron_core_until_0_9(self):
        self.assertEqual(self.returning(LOSSES, 0, 1.5, None), [(7, 3.0, 1.5), (8, 3.0, 1.5)])
        self.assertEqual((self.client.began, self.said.getvalue()), ([7], ""))

    def test_seven_values_of_megatron_core_until_0_15(self):
        self.assertEqual(self.returning(LOSSES, 0, False, False, 0, 1.5, 9), [(7, 3.0, 1.5), (8, 3.0, 1.5)])
        self.assertEqual(self.said.getvalue(), "")

    def test_eight_values_of_megatron_core_since_0_16(self):
        self.assertEqual(self.returning(LOSSES, 0, False, False, 0, 1.5, 9, 0.25), [(7, 3.0, 1.5), (8, 3.0, 1.5)])
        self.assertEqual(self.said.getvalue(), "")

    def test_a_rank_that_knows_no_loss_and_a_skipped_step_tell_their_time(self):
        self.assertEqual(self.returning({}, 1, False, False, 0, None, None), [(7, None, None), (8, None, None)])
        self.assertEqual(self.said.getvalue(), "")

    def test_unknown_values_are_said_once_and_the_step_is_told_without(self):
        for values in ((LOSSES, 0, 1.5), ("loss", 0, 1.5, None), ({"lm loss": "none"}, 0, 1.5, None)):
            with self.subTest(values=values):
                self.setUp()
                self.assertEqual(self.returning(*values), [(7, None, None), (8, None, None)])
                self.assertEqual(self.said.getvalue().count("needs 4, 7 or 8 values from train_step()"), 1)
                self.assertIn(f"finds {len(values)}: ", self.said.getvalue())
                self.assertIn("client.step()", self.said.getvalue())

    def test_a_step_that_megatron_does_not_count_is_not_told(self):
        self.assertEqual(self.returning({}, True, False, True, 16, None, None), [])

    def test_what_train_step_raises_is_raised_and_the_next_one_is_told(self):
        fails = [True, False]

        def plain(**named):
            if fails.pop(0):
                raise RuntimeError("out of memory")
            return LOSSES, 0, 1.5, None

        train_step = self.train_step(plain)
        with self.assertRaisesRegex(RuntimeError, "out of memory"):
            train_step(iteration=20)
        train_step(iteration=20)
        self.assertEqual(self.client.steps, [(20, 3.0, 1.5)])

    def test_the_argument_iteration_counts_before_args(self):
        self.train_step(lambda iteration=None: (LOSSES, 0, False, False, 0, 1.5, 9, 0.25))(iteration=500)
        self.assertEqual((self.client.began, self.client.steps), ([500], [(500, 3.0, 1.5)]))

    def test_without_a_current_iteration_steps_are_counted_from_the_checkpoints(self):
        self.args = types.SimpleNamespace(iteration=300)
        train_step = self.train_step(lambda: (LOSSES, 0, 1.5, None))
        train_step()
        train_step()
        self.assertEqual((self.client.began, [step for step, *_ in self.client.steps]), ([300], [300, 301]))

    def test_without_any_iteration_training_goes_on_untold(self):
        self.args = types.SimpleNamespace()
        train_step = self.train_step(lambda: "trained")
        self.assertEqual([train_step(), train_step()], ["trained", "trained"])
        self.assertEqual((self.client.began, self.client.steps), ([], []))
        self.assertEqual(self.said.getvalue().count("args.curr_iteration"), 1)


PRETRAIN = """
import json, os, sys
from megatron.training import pretrain

if __name__ == "__main__":
    print(json.dumps([sys.argv, __file__, sys.path[0], __spec__ is None, __name__ in sys.modules,
                      vars(sys.modules["__main__"]) is globals(), "trimtab" in str(sys.meta_path)]))
    pretrain()
    sys.exit(3)
"""
TRAINING = """
import types

ARGS = types.SimpleNamespace(iteration=4, curr_iteration=None)

def get_args():
    return ARGS

def train_step(data):
    return {"lm loss": 2.0 if ARGS.curr_iteration < 5 else float("nan")}, 0, 1.5, None

def pretrain():
    for ARGS.curr_iteration in range(ARGS.iteration, 6):
        losses, skipped, norm, zeros = train_step(None)
        print(ARGS.curr_iteration, losses, norm)
"""


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trimtab-megatron-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.socket = os.path.join(self.folder, "agent.sock")
        self.write("pretrain_gpt.py", PRETRAIN)

    def write(self, path, text):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def layout(self, is_package, training=TRAINING):
        """Of Megatron Core since 0.6, or of before."""
        shutil.rmtree(os.path.join(self.folder, "megatron"), ignore_errors=True)
        self.write("megatron/__init__.py", "")
        if not is_package:
            return self.write("megatron/training.py", training)
        self.write("megatron/training/__init__.py", "from .training import pretrain\n")
        self.write("megatron/training/training.py", training)

    def run_script(self, *words, **environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRIMTAB")}
        return subprocess.run([sys.executable, *words, "pretrain_gpt.py", "--lr", "1"], cwd=self.folder, text=True, timeout=60,
                              env={**kept, "PYTHONPATH": CLIENT, **environment}, capture_output=True, check=False)

    def test_without_an_agent_it_runs_as_if_alone(self):
        self.layout(True)
        alone = self.run_script()
        self.assertEqual((alone.returncode, alone.stdout.count("lm loss")), (3, 2), alone.stderr)
        for environment in ({}, {"TRIMTAB_SOCKET": self.socket, "TRIMTAB": "0"}):
            run = self.run_script("-m", "trimtab.megatron", **environment)
            self.assertEqual((run.returncode, run.stdout, run.stderr), (alone.returncode, alone.stdout, alone.stderr))

    def test_an_agent_hears_of_each_step_in_either_layout(self):
        for is_package in (True, False):
            with self.subTest(is_package=is_package):
                agent = Agent(self.socket)
                self.layout(is_package)
                run = self.run_script("-m", "trimtab.megatron", TRIMTAB_SOCKET=self.socket)
                self.assertEqual((run.returncode, run.stdout.count("lm loss"), run.stderr), (3, 2, ""))
                hello, first, second, bye = agent.accept(), agent.read(), agent.read(), agent.read()
                agent.close()
                self.assertEqual((hello["type"], hello["step"]), ("hello", 4))
                self.assertEqual((first["step"], first["loss"], first["gradient_norm"]), (4, 2.0, 1.5))
                self.assertEqual((second["step"], second["not_finite"]), (5, "loss"))
                self.assertEqual(bye, {"type": "bye", "step": 6})

    def test_an_agent_that_is_not_there_changes_nothing(self):
        self.layout(True)
        run = self.run_script("-m", "trimtab.megatron", TRIMTAB_SOCKET=self.socket)
        self.assertEqual((run.returncode, run.stdout.count("lm loss"), run.stderr), (3, 2, ""))

    def test_a_train_step_that_is_not_found_is_said(self):
        self.layout(True, TRAINING.replace("train_step", "one_step"))
        run = self.run_script("-m", "trimtab.megatron", TRIMTAB_SOCKET=self.socket)
        self.assertEqual((run.returncode, run.stdout.count("lm loss")), (3, 2), run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertIn("finds no train_step: no step is told; call client.step()", run.stderr)

    def test_a_script_of_another_framework_is_told_of(self):
        self.write("pretrain_gpt.py", "print('trained')\n")
        run = self.run_script("-m", "trimtab.megatron", TRIMTAB_SOCKET=self.socket)
        self.assertEqual((run.returncode, run.stdout), (0, "trained\n"))
        self.assertIn("needs a script that imports megatron.training.training", run.stderr)

    def test_a_script_that_runs_out_of_memory_says_so_and_ends(self):
        in_a_step = TRAINING.replace("    return {", "    if ARGS.curr_iteration == 5:\n"
                                     "        raise RuntimeError('CUDA out of memory. Tried to allocate 20.00 MiB')\n    return {")
        before = "raise MemoryError('no room for the model')\n"
        for training, step, steps, words in ((in_a_step, 5, 1, "CUDA out of memory. Tried to"), (before, 0, 0, "no room for")):
            with self.subTest(words=words):
                agent = Agent(self.socket)
                self.layout(True, training)
                run = self.run_script("-m", "trimtab.megatron", TRIMTAB_SOCKET=self.socket, TRIMTAB_EPOCH="3")
                self.assertEqual(run.returncode, 1)
                self.assertIn(words, run.stderr)
                agent.accept()
                for _ in range(steps):
                    self.assertEqual(agent.read()["type"], "step")
                failed, bye = agent.read(), agent.read()
                agent.close()
                self.assertEqual([failed[name] for name in ("type", "epoch", "step", "reason")],
                                 ["plan_failed", 3, step, "out_of_memory"])
                self.assertIn(words, failed["message"])
                self.assertEqual(bye["type"], "bye")

    def test_what_the_script_raises_ends_it(self):
        self.write("pretrain_gpt.py", "raise KeyError('vocabulary')\n")
        run = self.run_script("-m", "trimtab.megatron")
        self.assertEqual(run.returncode, 1)
        self.assertIn("KeyError: 'vocabulary'", run.stderr)

    def test_a_script_that_cannot_be_read_is_named(self):
        os.unlink(os.path.join(self.folder, "pretrain_gpt.py"))
        run = self.run_script("-m", "trimtab.megatron")
        self.assertEqual((run.returncode, run.stderr), (2, "trimtab.megatron: cannot read pretrain_gpt.py: No such file or directory\n"))


if __name__ == "__main__":
    unittest.main()

"""A watched process is the user's: what Trimtab loads into it costs nothing, hides nothing and raises nothing."""
import os
import shutil
import subprocess
import sys
import unittest

from watched_job import CLIENT, HAS_TORCH, HOOK, PYTHON, WatchedJobTest

TRAIN = """
model = mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in DataLoader(samples(80), batch_size=8):
    optimizer.zero_grad()
    loss_of(model(x), y).backward()
    optimizer.step()
"""
START_MAX_S = 0.005


class Start(WatchedJobTest):
    def python(self, *arguments, python=sys.executable, **environment):
        return subprocess.run([python, *arguments], env=self.environment("/nowhere", **environment), capture_output=True,
                              text=True, timeout=60, check=False)

    def test_nothing_of_trimtab_is_loaded_before_pytorch(self):
        said = self.python("-c", "import sys; print([n for n in sys.modules if n.startswith('trimtab')], len(sys.meta_path))")
        bare = self.python("-c", "import sys; print([n for n in sys.modules if n.startswith('trimtab')], 1 + len(sys.meta_path))",
                           TRIMTAB_WATCH="0")
        self.assertEqual((said.stdout, said.stderr), (bare.stdout, ""))
        self.assertTrue(said.stdout.startswith("[] "))

    def test_switched_off_nothing_is_there(self):
        for environment in ({"TRIMTAB_WATCH": "0"}, {"TRIMTAB": "0"}):
            said = self.python("-c", "import sys; print([f for f in sys.meta_path if '_Torch' in repr(f)])", **environment)
            self.assertEqual(said.stdout, "[]\n")

    def test_isolated_interpreters_see_nothing(self):
        for flag in ("-S", "-I", "-E"):
            said = self.python(flag, "-c", "import sys; print([f for f in sys.meta_path if '_Torch' in repr(f)])")
            self.assertEqual((said.stdout, said.stderr), ("[]\n", ""))

    def test_the_start_takes_less_than_five_milliseconds(self):
        """The least of several runs of the hook, in time of the process: other processes lengthen neither."""
        said = self.python("-c", f"""
import sys, time
def took():
    began = time.process_time()
    with open({HOOK + "/sitecustomize.py"!r}) as file:
        exec(compile(file.read(), "sitecustomize", "exec"), {{"__file__": {HOOK + "/sitecustomize.py"!r}, "__name__": "x"}})
    return time.process_time() - began
print(min(took() for _ in range(9)))
""")
        self.assertLess(float(said.stdout), START_MAX_S, said.stderr)

    def test_the_users_own_sitecustomize_and_usercustomize_run(self):
        self.write("own/sitecustomize.py", "import builtins\nbuiltins.own = __name__\n")
        self.write("own/inner.py", "")
        said = self.python("-c", "import sys, sitecustomize; print(own, sitecustomize.__file__, "
                           "any('_Torch' in repr(f) for f in sys.meta_path))",
                           PYTHONPATH=f"{HOOK}:{CLIENT}:{self.folder}/own")
        self.assertEqual((said.stdout, said.stderr), (f"sitecustomize {self.folder}/own/sitecustomize.py True\n", ""))
        base, enabled = self.python("-c", "import site; print(site.getusersitepackages()); print(site.ENABLE_USER_SITE)",
                                    PYTHONUSERBASE=self.folder).stdout.split("\n")[:2]
        if enabled != "True":  # A virtual environment has none.
            return
        self.write(os.path.join(os.path.relpath(base, self.folder), "usercustomize.py"), "print('own user')\n")
        said = self.python("-c", "pass", PYTHONUSERBASE=self.folder)
        self.assertEqual(said.stdout, "own user\n")

    def test_what_the_users_sitecustomize_raises_is_told_as_without_trimtab(self):
        self.write("own/sitecustomize.py", "raise ValueError('mine')\n")
        alone = self.python("-c", "print('on')", PYTHONPATH=f"{self.folder}/own")
        said = self.python("-c", "print('on')", PYTHONPATH=f"{HOOK}:{CLIENT}:{self.folder}/own")
        self.assertEqual((said.stdout, said.stderr), (alone.stdout, alone.stderr))
        self.assertIn("mine", said.stderr)

    def test_a_virtual_environment_has_its_own_packages_and_the_hook(self):
        environment = os.path.join(self.folder, "an environment")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=60)
        said = self.python("-c", "import sys; print(sys.prefix); print([f for f in sys.meta_path if '_Torch' in repr(f)] != [])",
                           python=os.path.join(environment, "bin", "python"))
        self.assertEqual((said.stdout, said.stderr), (f"{environment}\nTrue\n", ""))

    def test_a_client_that_cannot_be_loaded_is_said_once_and_the_module_is_found(self):
        hook = os.path.join(self.folder, "client", "watch_hook", "sitecustomize.py")
        os.makedirs(os.path.dirname(hook))
        shutil.copy(os.path.join(HOOK, "sitecustomize.py"), hook)
        self.write("client/trimtab/__init__.py", "raise RuntimeError('broken')\n")
        self.write("own/torch.py", "value = 7\n")
        said = self.python("-c", "import torch; print(torch.value)",
                           PYTHONPATH=f"{os.path.dirname(hook)}:{self.folder}/client:{self.folder}/own")
        self.assertEqual(said.stdout, "7\n")
        self.assertEqual(said.stderr, "trimtab: this process is not watched: RuntimeError: broken\n")

    def test_another_module_that_is_called_torch_is_left_alone(self):
        self.write("own/torch.py", "value = 7\n")
        said = self.python("-c", "import torch; print(torch.value, torch.__loader__.get_source('torch'), end='')",
                           PYTHONPATH=f"{HOOK}:{CLIENT}:{self.folder}/own")
        self.assertEqual((said.stdout, said.returncode), ("7 value = 7\n", 0))
        self.assertLessEqual(said.stderr.count("trimtab:"), 1)

    def test_the_users_finders_are_asked(self):
        self.write("own/sitecustomize.py", """
import sys
import importlib.util

class Own:
    asked = []
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            Own.asked.append(name)
            return importlib.util.spec_from_loader(name, self)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        module.value = 8

sys.meta_path.insert(0 if "first" in sys.argv else 1, Own())
""")
        for place in ("first", "second"):
            said = self.python("-c", "import sys, torch; print(torch.value, type(torch.__loader__).__name__)", place,
                               PYTHONPATH=f"{HOOK}:{CLIENT}:{self.folder}/own")
            self.assertEqual(said.stdout, "8 Own\n", said.stderr)


@unittest.skipUnless(HAS_TORCH, "needs PyTorch")
class Process(WatchedJobTest):
    def test_a_script_that_never_trains_is_no_rank(self):
        job = self.run_job("""
            model = mlp()
            with torch.no_grad():
                for x, y in DataLoader(samples(32), batch_size=8, num_workers=1):
                    model(x)
            x = torch.ones(3, requires_grad=True)
            (x * x).sum().backward()
            print(x.grad.tolist())
            """)
        self.assertEqual((job.ranks, job.output), ({}, "[2.0, 2.0, 2.0]\n"))

    def test_forked_children_say_nothing_and_a_child_that_trains_itself_is_a_rank(self):
        job = self.run_job(TRAIN + """
if os.fork() == 0:
    loss_of(model(x), y).backward()
    optimizer.step()
    os._exit(0)
os.wait()
""")
        self.assertEqual(len(job.steps()), 10)
        job = self.run_job("if os.fork() != 0:\n    os.wait()\n    sys.exit(0)\n" + TRAIN)
        self.assertEqual(len(job.steps()), 10)

    def test_what_a_script_raises_is_raised_and_training_goes_on(self):
        job = self.run_job("""
            class Fails(nn.Module):
                fail = False
                def forward(self, x):
                    if Fails.fail:
                        raise ValueError("mine")
                    return x
            model = nn.Sequential(Fails(), mlp())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            def train():
                for number, (x, y) in enumerate(DataLoader(samples(80), batch_size=8)):
                    Fails.fail = number == 4
                    try:
                        optimizer.zero_grad()
                        loss_of(model(x), y).backward()
                        optimizer.step()
                    except ValueError as error:
                        print(error)
                    if number == 6:
                        try:
                            torch.ones(2, requires_grad=True).backward()
                        except RuntimeError:
                            print("no scalar")
            train()
            raise KeyError("the end")
            """, check=False)
        self.assertEqual((job.codes, job.output), ([1], "mine\nno scalar\n"))
        self.assertIn("KeyError: 'the end'", job.errors)
        self.assertNotIn("trimtab", job.errors)
        self.assertEqual(len(job.steps()), 9)
        self.assert_parts_fit(job)
        self.assertEqual(job.frames("bye"), [{"type": "bye", "step": 9}])

    def test_models_are_pickled_and_copied_as_without_hooks(self):
        job = self.run_job(TRAIN + """
import copy, io
buffer = io.BytesIO()
torch.save(model, buffer)
copy.deepcopy(model)(x)
open("model.pt", "wb").write(buffer.getvalue())
""")
        self.assertEqual(len(job.steps()), 10)
        said = subprocess.run([PYTHON, "-c", "import torch, sys; m = torch.load('model.pt', **({'weights_only': False} if "
                               "torch.__version__ > '2' else {})); print(m(torch.ones(1, 64)).shape, "
                               "[n for n in sys.modules if 'trimtab' in n])"],
                              cwd=self.folder, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(said.stdout, "torch.Size([1, 10]) []\n", said.stderr)

    def test_without_an_agent_the_script_trains(self):
        script = self.write("train.py", "from watched_job import START\nexec(START)\n" + TRAIN + "print('done')\n")
        said = subprocess.run([PYTHON, script], env=self.environment("/nowhere/agent.sock", PYTHONPATH=":".join(
            [HOOK, CLIENT, os.path.dirname(os.path.abspath(__file__))])), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((said.stdout, said.stderr, said.returncode), ("done\n", "", 0))

    def test_a_job_that_tells_of_itself_is_told_once(self):
        job = self.run_job("""
            import trimtab
            client = trimtab.connect(5)
            """ + TRAIN.replace("\n", "\n            ") + """
            client.step(5, wall_ns=7)
            client.close()
            """)
        self.assertEqual([step["wall_ns"] for step in job.ranks[0] if step["type"] == "step"], [7])
        self.assertEqual((job.frames("hello")[0]["watched"], len(job.frames("hello"))), (True, 1))

    def assert_parts_fit(self, job):
        if all("parts" in step for step in job.steps()):
            super().assert_parts_fit(job)

    def test_launchers_variables_say_which_rank(self):
        job = self.run_job(TRAIN, SLURM_PROCID="3", SLURM_NTASKS="8", SLURM_LOCALID="1", SLURM_STEP_ID="0",
                           TORCHELASTIC_RESTART_COUNT="2")
        hello = job.frames("hello", 3)[0]
        self.assertEqual((hello["rank"], hello["world_size"], hello["local_rank"], hello["launch"]), (3, 8, 1, 3))


if __name__ == "__main__":
    unittest.main()

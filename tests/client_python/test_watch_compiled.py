"""With hooks torch.compile breaks and compiles as often as without them. Needs PyTorch 2.x (TRIMTAB_TEST_PYTHON)."""
import json
import subprocess
import unittest

from watched_job import PYTHON, START, WatchedJobTest

LOOP = START + """
import json
import torch._dynamo
how = sys.argv[1]
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)
    def forward(self, x):
        return x + torch.relu(self.linear(x))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(64, 10)
    def forward(self, x):
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if how == "checkpointed" else block(x)
        return self.head(x)
def compiled(what):
    return torch.compile(what, backend="aot_eager")
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
model, step = net, optimizer.step
def whole(x, y):
    optimizer.zero_grad()
    loss_of(model(x), y).backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
def parts(x, y):
    optimizer.zero_grad()
    loss_of(model(x), y).backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    step()
train = parts
if how in ("module", "checkpointed"):
    model = compiled(net)
elif how == "in_place":
    net.compile(backend="aot_eager")
elif how == "layers":
    for block in net.blocks:
        block.compile(backend="aot_eager")
elif how == "function":
    model = compiled(lambda x: net(x))
elif how == "optimizer":
    step = compiled(lambda: optimizer.step())
elif how == "whole":
    train = compiled(whole)
for epoch in range(2):
    for x, y in DataLoader(samples(160), batch_size=16):
        train(x, y)
    if how == "late" and epoch == 0:
        model = compiled(net)
counters = torch._dynamo.utils.counters
print(json.dumps([counters["stats"], sum(counters["graph_break"].values()), sum(counters["recompiles"].values())]))
"""


def compiles():
    said = subprocess.run([PYTHON, "-c", "import torch; torch.compiler.is_compiling"], capture_output=True, check=False)
    return said.returncode == 0


@unittest.skipUnless(compiles(), "needs PyTorch 2.1 or later (TRIMTAB_TEST_PYTHON)")
class Compiled(WatchedJobTest):
    """The number of graphs, breaks and recompilations is the same with hooks and without, and steps are told."""

    def same(self, how):
        watched = self.run_job(LOOP, start="", arguments=(how,))
        bare = self.run_job(LOOP, start="", arguments=(how,), TRIMTAB_WATCH="0")
        self.assertEqual(json.loads(watched.output), json.loads(bare.output))
        self.assertGreaterEqual(json.loads(bare.output)[0]["unique_graphs"], 1)
        self.assertEqual((len(watched.steps()), len(bare.ranks)), (20, 0))
        if how != "late":  # Facts that change are told five seconds later, and the job is over by then.
            self.assertTrue(watched.facts()["compiled"])

    def test_a_module(self):
        self.same("module")

    def test_a_module_with_checkpointed_layers(self):
        self.same("checkpointed")

    def test_a_module_in_place(self):
        self.same("in_place")

    def test_layers_in_place(self):
        self.same("layers")

    def test_a_function_that_calls_the_model(self):
        self.same("function")

    def test_an_optimizers_step(self):
        self.same("optimizer")

    def test_a_whole_step(self):
        self.same("whole")

    def test_a_module_after_the_first_epoch(self):
        self.same("late")


if __name__ == "__main__":
    unittest.main()

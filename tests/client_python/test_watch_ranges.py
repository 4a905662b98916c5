"""A watched script's ranges are nested, down to its layers where that costs next to nothing."""
import json
import unittest

from watched_job import HAS_TORCH, WatchedJobTest

RECORDED = """
import json
import trimtab.client

class Recorded:
    active = True
    log, depth, broken = [], 0, 0
    def __init__(self, environment):
        self.range = None
    def push(self, name, payload=0):
        Recorded.log.append(">" * Recorded.depth + name)
        Recorded.depth += 1
    def pop(self):
        Recorded.depth -= 1
        Recorded.broken += Recorded.depth < 0

trimtab.client.Ranges = Recorded
layers = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), Sleep({sleep}), nn.ReLU(inplace=True)) for _ in range({layers})])
model = nn.Sequential(layers, nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in DataLoader(samples({steps} * 4), batch_size=4):
    optimizer.zero_grad()
    loss_of(model(x), y).backward()
    optimizer.step()
log = Recorded.log
*_, last, end = (place for place, name in enumerate(log) if name == "step")  # after the end the loader is asked once more
print(json.dumps([log[last:end], Recorded.broken, Recorded.depth]))
"""


@unittest.skipUnless(HAS_TORCH, "needs PyTorch")
class Ranges(WatchedJobTest):
    def ranges(self, sleep, layers, steps):
        job = self.run_job(RECORDED.format(sleep=sleep, layers=layers, steps=steps))
        step, broken, depth = json.loads(job.output)
        self.assertEqual((broken, depth), (0, 1))  # The step that follows the last one is open.
        return step

    def test_layers_whose_passes_are_long_are_ranges(self):
        self.assertEqual(self.ranges(0.05, 2, 9), [
            "step", ">data", ">op/Sequential/forward", ">>op/0.0/forward", ">>op/0.1/forward",
            ">op/model/backward", ">>op/0.1/backward", ">>op/0.0/backward", ">optimizer"])

    def test_layers_whose_passes_are_short_are_none_after_some_steps(self):
        self.assertEqual(self.ranges(0.0, 60, 12), ["step", ">data", ">op/Sequential/forward", ">op/model/backward", ">optimizer"])


if __name__ == "__main__":
    unittest.main()

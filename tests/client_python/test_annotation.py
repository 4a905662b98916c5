"""A module tree's passes become nested ranges, whatever its graph does."""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "client", "python"))

import trimtab

try:
    import torch
    from torch import nn
except ImportError:
    torch = None


class RecordedRanges:
    """Stands for trimtab.ranges.Ranges: keeps what was pushed, and its nesting."""

    def __init__(self, active=True):
        self.active = active
        self.pushed = []
        self.ended = []
        self.open = []

    def push(self, name, payload=0):
        self.pushed.append((name, payload))
        self.open.append(name)

    def pop(self):
        self.ended.append(self.open.pop())


@unittest.skipUnless(torch, "needs PyTorch")
class AnnotationTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.ranges = RecordedRanges()

    def model(self):
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.LayerNorm(8)
                self.left = nn.Linear(8, 8)
                self.right = nn.Linear(8, 8)

            def forward(self, x):
                h = self.norm(x)
                return x + self.left(h) * self.right(h)

        return nn.Sequential(Block(), Block())

    def names(self):
        return [name for name, _ in self.ranges.pushed]

    def test_every_submodule_has_its_passes_and_all_of_them_end(self):
        model = self.model()
        notes = trimtab.annotate(model, self.ranges)
        model(torch.randn(3, 8)).sum().backward()
        names = self.names()
        for module in ("0", "0.norm", "0.left", "0.right", "1", "1.norm", "1.left", "1.right"):
            self.assertEqual(names.count(f"op/{module}/forward"), 1, names)
            self.assertEqual(names.count(f"op/{module}/backward"), 1, names)
        self.assertEqual(self.ranges.open, [])
        self.assertTrue(all(payload == 3 for _, payload in self.ranges.pushed))
        self.assertEqual(names[:5], ["op/0/forward", "op/0.norm/forward", "op/0.left/forward", "op/0.right/forward", "op/1/forward"])
        notes.remove()
        model(torch.randn(3, 8)).sum().backward()
        self.assertEqual(len(self.names()), len(names))

    def test_gradients_are_what_they_were(self):
        model, x = self.model(), torch.randn(5, 8)
        model(x).sum().backward()
        bare = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        trimtab.annotate(model, self.ranges)
        model(x).sum().backward()
        self.assertTrue(all(torch.equal(a, p.grad) for a, p in zip(bare, model.parameters())))

    def test_recomputation_is_told_from_the_first_pass(self):
        from torch.utils.checkpoint import checkpoint

        model = self.model()
        trimtab.annotate(model, self.ranges)
        x = torch.randn(2, 8, requires_grad=True)
        checkpoint(model, x, use_reentrant=False).sum().backward()
        names = self.names()
        self.assertEqual(names.count("op/0.left/forward"), 1, names)
        self.assertEqual(names.count("op/0.left/recompute"), 1, names)
        self.assertEqual(self.ranges.open, [])

    def test_a_pass_that_raises_leaves_nothing_open_for_the_next(self):
        model = self.model()
        trimtab.annotate(model, self.ranges)
        with self.assertRaises(RuntimeError):
            model(torch.randn(2, 7))
        model(torch.randn(2, 8))
        self.assertEqual(self.ranges.open, [])

    def test_names_choose_and_a_lone_module_is_annotated_itself(self):
        trimtab.annotate(self.model(), self.ranges, names=lambda name, module: name.endswith("left"))
        lone = nn.Linear(8, 8)
        trimtab.annotate(lone, self.ranges)
        lone(torch.randn(1, 8))
        self.assertEqual(self.names(), ["op/Linear/forward"])

    def test_without_an_agent_no_hook_is_set(self):
        self.assertEqual(trimtab.annotate(self.model(), RecordedRanges(active=False)).count, 0)


if __name__ == "__main__":
    unittest.main()

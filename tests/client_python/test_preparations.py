"""What makes a step unlike those to come is counted where PyTorch is loaded, and PyTorch is never loaded for it."""
import collections
import os
import subprocess
import sys
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENT = os.path.join(ROOT, "client", "python")
sys.path.insert(0, CLIENT)

from trimtab.preparations import Preparations


class Cuda:
    """As much of torch.cuda as is read."""

    def __init__(self):
        self.reserved, self.initialized, self.asked = 1 << 20, True, 0

        class CUDAGraph:
            captured = 0

            def capture_end(self):
                self.captured += 1
                return "captured"

        self.CUDAGraph = CUDAGraph

    def is_initialized(self):
        return self.initialized

    def memory_stats_as_nested_dict(self):
        self.asked += 1
        return {"reserved_bytes": {"all": {"allocated": self.reserved}}}


def loaded(cuda):
    counters = collections.defaultdict(collections.Counter)
    return {"torch": types.SimpleNamespace(cuda=cuda),
            "torch._dynamo.utils": types.SimpleNamespace(counters=counters)}, counters


class PreparationsTest(unittest.TestCase):
    def test_what_came_before_the_first_look_is_no_steps(self):
        modules, counters = loaded(Cuda())
        counters["frames"]["total"] = 5
        self.assertEqual(Preparations(modules).count(), 0)

    def test_compilations_captures_and_growth_of_the_allocator_count(self):
        cuda = Cuda()
        modules, counters = loaded(cuda)
        one = Preparations(modules)
        one.count()
        counters["frames"]["total"] += 3
        self.assertEqual(one.count(), 1)
        self.assertEqual(one.count(), 1, "nothing has come since")
        cuda.reserved += 2 << 20
        self.assertEqual(one.count(), 2)
        graph = cuda.CUDAGraph()
        self.assertEqual(graph.capture_end(), "captured")
        self.assertEqual(graph.captured, 1)
        self.assertEqual(one.count(), 3)
        one.add()
        self.assertEqual(one.count(), 4)

    def test_a_number_that_falls_back_is_no_preparation(self):
        cuda = Cuda()
        modules, counters = loaded(cuda)
        one = Preparations(modules)
        counters["frames"]["total"] = 9
        one.count()
        counters.clear()  # torch._dynamo's reset
        cuda.reserved = 0  # reset_accumulated_memory_stats()
        self.assertEqual(one.count(), 0)
        counters["frames"]["total"] = 1
        self.assertEqual(one.count(), 1)

    def test_what_is_loaded_later_is_seen_from_then_on(self):
        modules = {}
        one = Preparations(modules)
        one.count()
        later, counters = loaded(Cuda())
        counters["frames"]["total"] = 1
        modules.update(later)
        self.assertGreater(one.count(), 0)

    def test_a_process_without_a_gpu_asks_for_none(self):
        cuda = Cuda()
        cuda.initialized = False
        one = Preparations(loaded(cuda)[0])
        self.assertEqual([one.count(), one.count(), cuda.asked], [0, 0, 0])
        self.assertFalse(hasattr(cuda.CUDAGraph.capture_end, "calls"))

    def test_releases_that_have_nothing_of_it_count_nothing(self):
        for torch in (types.SimpleNamespace(), types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: True)),
                      None):
            one = Preparations({"torch": torch, "torch._dynamo.utils": torch})
            self.assertEqual([one.count(), one.count()], [0, 0])

    def test_two_clients_of_a_process_count_the_same_captures(self):
        cuda = Cuda()
        ones = [Preparations(loaded(cuda)[0]) for _ in range(2)]
        for one in ones:
            one.count()
        cuda.CUDAGraph().capture_end()
        self.assertEqual([one.count() for one in ones], [1, 1])

    def test_pytorch_is_not_loaded_by_it(self):
        program = ("import sys, trimtab\n"
                   "client = trimtab.Client({'TRIMTAB_SOCKET': '/nonexistent'})\n"
                   "client.begin(0); client.step(0, wall_ns=1)\n"
                   "assert client.errors == 0 and not any(name.startswith('torch') for name in sys.modules)\n")
        environment = {**os.environ, "PYTHONPATH": CLIENT}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)


if __name__ == "__main__":
    unittest.main()

"""What the device takes and what the host takes to issue it are told apart, whichever of the two is slower."""
import types
import unittest

from fake_gpu import FakeGpu

from trimtab.two_clocks import HostClock, TwoClocks, clock_of_key, clocks_of, launched_as

CPU, GPU = types.SimpleNamespace(type="cpu"), types.SimpleNamespace(type="cuda")


class Spans(unittest.TestCase):
    def setUp(self):
        self.gpu = FakeGpu()
        self.clocks = TwoClocks(types.SimpleNamespace(cuda=self.gpu), GPU, clock=self.gpu.clock)

    def test_launch_bound(self):
        forward, backward = self.gpu.kernels(20, 5000, 1000), self.gpu.kernels(40, 6000, 2000)
        self.assertEqual(self.clocks.spans(forward, backward), [20_000, 80_000, 100_000, 240_000])

    def test_compute_bound(self):
        self.assertEqual(self.clocks.spans(self.gpu.kernels(20, 5000, 90_000)), [1_800_000, 100_000])

    def test_without_a_cover_gaps_would_count(self):
        begin, end = self.gpu.Event(True), self.gpu.Event(True)
        begin.record()
        self.gpu.kernels(20, 5000, 1000)()
        end.record()
        self.assertEqual(round(1e6 * begin.elapsed_time(end)), 101_000)

    def test_the_cover_grows_until_it_lasts(self):
        self.assertEqual(self.clocks.spans(self.gpu.kernels(900, 10_000, 1000)), [900_000, 9_000_000])
        before = self.gpu.now
        self.assertEqual(self.clocks.spans(self.gpu.kernels(900, 10_000, 1000)), [900_000, 9_000_000])
        self.assertLess(self.gpu.now - before, 40_000_000)  # One cover, as long as was needed.

    def test_work_that_waits_for_the_device_has_no_time_of_its_host(self):
        def waits():
            self.gpu.kernels(4, 1000, 3000)()
            self.gpu.synchronize()

        device, host = self.clocks.spans(waits)
        self.assertEqual(host, 0)
        before = self.gpu.now
        self.assertEqual(self.clocks.spans(waits), [device, 0])
        self.assertLess(self.gpu.now - before, 1_000_000)  # It is not tried again and again.

    def test_more_kernels_than_the_queue_holds(self):
        self.assertEqual(self.clocks.spans(self.gpu.kernels(3000, 10_000, 1000))[1], 0)


class Costs(unittest.TestCase):
    KEYS = [{"kind": "operator_forward", "subject": "mlp"}, {"kind": "operator_backward", "subject": "mlp"}]

    def test_one_clock(self):
        columns = HostClock().spans(lambda: None, lambda: None)
        self.assertEqual(HostClock().costs(self.KEYS, columns), list(zip(self.KEYS, columns)))
        self.assertIs(type(clocks_of(None, CPU)), HostClock)

    def test_launches_are_costs_of_the_same_passes(self):
        clocks = TwoClocks(types.SimpleNamespace(cuda=FakeGpu()), GPU)
        costs = clocks.costs(self.KEYS, [[10, 11], [20, 21], [5, 6], [0, 0]])
        self.assertEqual(costs, [(self.KEYS[0], [10, 11]), (self.KEYS[1], [20, 21]),
                                 ({**self.KEYS[0], "algorithm": "launch"}, [5, 6])])
        self.assertEqual([clock_of_key(key, GPU) for key, _ in costs], ["device", "device", "host"])
        self.assertEqual(clock_of_key(self.KEYS[0], CPU), "host")

    def test_what_is_launched_is_said(self):
        module = types.SimpleNamespace(_orig_mod=None)
        clocks = clocks_of(types.SimpleNamespace(cuda=FakeGpu()), GPU, module)
        self.assertEqual(clocks.costs(self.KEYS[:1], [[1], [2]])[1][0]["protocol"], "compiled")

        def make_graphed_callables():
            def new_fwd():
                pass
            return new_fwd

        self.assertEqual(launched_as(types.SimpleNamespace(forward=make_graphed_callables())), "graph")
        self.assertEqual(launched_as(types.SimpleNamespace()), "")


if __name__ == "__main__":
    unittest.main()

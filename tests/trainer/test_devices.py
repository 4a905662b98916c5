"""Which device a rank takes, and how times are read on it; what needs no GPU of it."""
import contextlib
import io
import json
import os
import sys
import time
import tomllib
import types
import unittest
from unittest import mock

import torch
from harness import MODEL, JobTest

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "client_python"))
from fake_gpu import FakeGpu

import benchmark
import benchmark_items
import config
import holding
import memory
import operator_state
import overlap_slowdown
import process_groups
import rank_process
import repetition
from benchmark_items import ItemError
from errors import BadInput
from model import operator_specs


def gpus(count):
    return mock.patch.multiple(torch.cuda, is_available=lambda: count > 0, device_count=lambda: count)


class Choice(unittest.TestCase):
    def test_each_rank_has_the_gpu_of_its_place(self):
        with gpus(2):
            self.assertEqual(rank_process.device_of("auto", 1), torch.device("cuda", 1))
            self.assertEqual(rank_process.device_of("cpu", 1), torch.device("cpu"))

    def test_without_a_gpu_auto_is_the_cpu_and_cuda_is_refused(self):
        with gpus(0):
            self.assertEqual(rank_process.device_of("auto", 0), torch.device("cpu"))
            with self.assertRaisesRegex(BadInput, "sees no GPU"):
                rank_process.device_of("cuda", 0)

    def test_more_ranks_than_gpus_are_refused(self):
        with gpus(1), self.assertRaisesRegex(BadInput, "local rank 1 needs a GPU of its own, PyTorch sees 1"):
            rank_process.device_of("auto", 1)

    def test_the_first_gpu_is_shared_where_that_is_asked_for(self):
        with gpus(1):
            self.assertEqual([rank_process.device_of("cuda:0", place) for place in (0, 1)], [torch.device("cuda", 0)] * 2)
        with gpus(0), self.assertRaisesRegex(BadInput, "--device cuda:0: PyTorch sees no GPU"):
            rank_process.device_of("cuda:0", 0)


@contextlib.contextmanager
def fake_cuda():
    gpu = FakeGpu()
    with (mock.patch.multiple(torch.cuda, Event=gpu.Event, synchronize=gpu.synchronize, _sleep=gpu._sleep),
          mock.patch.object(time, "perf_counter_ns", gpu.clock)):
        yield gpu


class Times(unittest.TestCase):
    def test_on_a_cpu_by_its_clock(self):
        cpu = torch.device("cpu")
        self.assertGreater(repetition.span_ns(cpu, lambda: sum(range(100000))), repetition.span_ns(cpu, lambda: None))

    def test_on_a_gpu_by_events(self):
        with fake_cuda() as gpu:
            self.assertEqual(repetition.span_ns(torch.device("cuda", 0), gpu.kernels(1, 0, 1_500_000)), 1_500_000)


class Operator:
    """Stands for an operator on a GPU: its kernels are slow to issue and fast to run."""

    def __init__(self, gpu):
        self.forward, self._backward = gpu.kernels(10, 5000, 1000), gpu.kernels(20, 6000, 1500)
        self.state = types.SimpleNamespace(module=torch.nn.Linear(1, 1), gradient=torch.zeros(1),
                                           update=lambda recipe, step: gpu.kernels(6, 4000, 3000)())

    def backward(self, kept):
        self._backward()

    def memory(self):
        return 64, 32


class TwoClocks(unittest.TestCase):
    def asked(self, device, gpu, item):
        """What the benchmark prints for it: (kind, algorithm, clock, values)."""
        groups = types.SimpleNamespace(world_size=1, barrier=lambda: None, minimum=lambda value: value)
        bench = types.SimpleNamespace(
            groups=groups, device=device, recipe=None, spec=lambda item: None, shared=lambda *_: (None, None),
            precision=repetition.Precision(0.1, 2, 4), config=types.SimpleNamespace(precision="float32", sequence=16))
        process = types.SimpleNamespace(connect=lambda: groups, device=device, close=lambda: None)
        answers = io.StringIO()
        with (mock.patch.object(benchmark, "Bench", lambda *_: bench),
              mock.patch.object(benchmark.model_config, "load", lambda path: None),
              mock.patch.object(benchmark, "load_requests", lambda path: ([item], None)),
              mock.patch.object(benchmark_items, "OperatorBench", lambda *_: Operator(gpu)),
              mock.patch.object(benchmark_items, "why_not_split", lambda *_: ""),
              contextlib.redirect_stdout(answers)):
            benchmark.run(types.SimpleNamespace(config="", requests="", rank=0, local_rank=0, gpu_bench=""), process)
        lines = [json.loads(line) for line in answers.getvalue().splitlines()]
        self.assertEqual(lines[-1], {"item_done": 0})
        return [(line["cost"]["kind"], line["cost"].get("algorithm"), line["clock"], set(line["values"]))
                for line in lines[:-1]]

    def test_a_gpus_passes_are_told_apart_from_their_launches(self):
        with fake_cuda() as gpu:
            asked = self.asked(torch.device("cuda", 0), gpu, {"kind": "operator", "cost_key": "mlp", "samples": 2})
            self.assertEqual(asked[:4], [("operator_forward", None, "device", {10_000}),
                                         ("operator_backward", None, "device", {30_000}),
                                         ("operator_forward", "launch", "host", {50_000}),
                                         ("operator_backward", "launch", "host", {120_000})])
            asked = self.asked(torch.device("cuda", 0), gpu, {"kind": "optimizer", "cost_key": "mlp"})
            self.assertEqual(asked, [("optimizer_step", None, "device", {18_000}),
                                     ("optimizer_step", "launch", "host", {24_000})])

    def test_a_cpu_has_one_clock(self):
        asked = self.asked(torch.device("cpu"), FakeGpu(), {"kind": "operator", "cost_key": "mlp", "samples": 2})
        self.assertEqual([line[:3] for line in asked[:2]], [("operator_forward", None, "host"),
                                                            ("operator_backward", None, "host")])
        self.assertEqual([line[0] for line in asked[2:]], ["operator_stored_bytes", "operator_working_bytes"])


class OverlapOnGpus(unittest.TestCase):
    """The arithmetic of GpuOverlap; what is queued is recorded instead of run."""

    def overlap(self, computation_end, communication_end):
        """As if both alone took 1 ms a piece."""
        one = overlap_slowdown.GpuOverlap.__new__(overlap_slowdown.GpuOverlap)
        one._counts, one._covers = [1, 1], [3, 3]
        one._alone = lambda queue, count: count * 1_000_000
        one._together = lambda computations, communications: (
            [0.0, computation_end[computations]], [0.0, communication_end[communications]])
        return one

    def test_ratios_are_disturbed_over_alone(self):
        ratios = self.overlap({1: 1.3e6, 3: 9e6}, {3: 9e6, 1: 1.1e6}).ratios()
        self.assertAlmostEqual(ratios[0], 1.3)
        self.assertAlmostEqual(ratios[1], 1.1)

    def test_an_early_cover_gives_nothing(self):
        self.assertIsNone(self.overlap({1: 4e6, 3: 9e6}, {3: 3e6, 1: 1.1e6}).ratios())
        self.assertIsNone(self.overlap({1: 1.3e6, 3: 3e6}, {3: 9e6, 1: 4e6}).ratios())

    def test_counts_are_bounded(self):
        self.assertEqual(overlap_slowdown._times(10, 3), 4)
        self.assertEqual(overlap_slowdown._times(1, 1000), 1)
        self.assertEqual(overlap_slowdown._times(10**9, 1), overlap_slowdown.COVER_MAX)


class OutOfMemory(unittest.TestCase):
    def measured(self, world_size, message):
        def fails(item, bench):
            raise RuntimeError(message)
            yield  # A generator, as the items are.

        bench = types.SimpleNamespace(groups=types.SimpleNamespace(world_size=world_size),
                                      device=torch.device("cpu"))
        with mock.patch.dict(benchmark.KINDS, {"operator": fails}):
            return list(benchmark.measured({"kind": "operator"}, bench, types.SimpleNamespace(gpu_bench="")))

    def test_a_rank_alone_answers_and_goes_on(self):
        with self.assertRaisesRegex(ItemError, "CUDA out of memory"):
            self.measured(1, "CUDA out of memory. Tried to allocate 2 GiB\nmore")

    def test_others_and_other_errors_end_the_rank(self):
        with self.assertRaises(RuntimeError):
            self.measured(2, "CUDA out of memory")
        with self.assertRaisesRegex(RuntimeError, "illegal"):
            self.measured(1, "an illegal memory access")


    def test_what_libraries_say_of_it(self):
        for error in (MemoryError(), RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), RuntimeError(
                "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")):
            self.assertTrue(memory.is_out_of_memory(error), error)
        for error in (RuntimeError("Connection closed by peer"), OSError("out of memory")):
            self.assertFalse(memory.is_out_of_memory(error), error)

    def test_a_limit_holds_until_it_is_lifted(self):
        cpu = torch.device("cpu")
        self.addCleanup(memory.lift_allocation_limit, cpu)
        memory.limit_allocations(256 << 20, 200 << 20, cpu)
        with self.assertRaises(RuntimeError) as failed:
            torch.empty(512 << 20, dtype=torch.uint8)
        self.assertTrue(memory.is_out_of_memory(failed.exception), failed.exception)
        torch.empty(32 << 20, dtype=torch.uint8)
        memory.lift_allocation_limit(cpu)
        torch.empty(512 << 20, dtype=torch.uint8)


class Addresses(unittest.TestCase):
    def test_of_the_interface_that_gloo_is_told(self):
        self.assertEqual(process_groups.own_address_towards("file:///x", {}), "127.0.0.1")
        self.assertEqual(process_groups.own_address_towards("tcp://localhost:1", {"GLOO_SOCKET_IFNAME": "lo"}), "127.0.0.1")
        self.assertEqual(process_groups._address_of("lo"), "127.0.0.1")

    def test_an_interface_that_is_not_there_is_refused_by_name(self):
        with self.assertRaisesRegex(BadInput, "GLOO_SOCKET_IFNAME names nosuch0, which has no IPv4 address.*there are .*lo"):
            process_groups.own_address_towards("file:///x", {"GLOO_SOCKET_IFNAME": "nosuch0"})


class SlowdownTable(JobTest):
    LINES = ['{"item": 0, "cost": {"kind": "overlap_computation"}, "values": [1000000]}', "a log line",
             '{"overlap": {}}', '{"item_done": 0}']

    def program(self, text, code):
        path = self.write("bench.sh", f"#!/bin/sh\ncat <<'END'\n{text}\nEND\necho no GPU >&2\nexit {code}\n")
        os.chmod(path, 0o755)
        return path

    def lines(self, text, code):
        return overlap_slowdown.table_lines(self.program(text, code), config.load(self.config), 1, 0)

    def test_cost_lines_are_passed_on(self):
        self.assertEqual(self.lines("\n".join(self.LINES), 0), [({"kind": "overlap_computation"}, [1000000])])

    def test_a_failure_carries_the_reason(self):
        with self.assertRaisesRegex(RuntimeError, "ended with 3: no GPU"):
            self.lines("", 3)


class Update(unittest.TestCase):
    def test_the_size_of_pieces_does_not_change_the_result(self):
        model = config.from_document(tomllib.loads(MODEL))
        spec, device = operator_specs(model)[1], torch.device("cpu")
        recipe = operator_state.Recipe(1e-3, 0.01)
        results = []
        for size in (7, 1 << 20):
            values = operator_state.initial(spec, model, holding.alone(spec, model), device)
            values.moments.uniform_(0.1, 1.0, generator=torch.Generator().manual_seed(3))
            state = operator_state.OperatorState(spec, model, device, values)
            state.gradient.normal_(generator=torch.Generator().manual_seed(4))
            with mock.patch.object(operator_state, "UPDATE_PIECE", size):
                norm = float(state.update(recipe, 5))
            results.append((norm, values))
            self.assertEqual(float(state.gradient.abs().sum()), 0.0)
        self.assertEqual(results[0][0], results[1][0])
        self.assertTrue(torch.equal(results[0][1].parameters, results[1][1].parameters))
        self.assertTrue(torch.equal(results[0][1].moments, results[1][1].moments))


if __name__ == "__main__":
    unittest.main()

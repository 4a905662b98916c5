"""How much a computation and a communication slow each other down on GPUs, where both are only queued.

Each repetition has four parts, one after the other: the computation alone, the communication alone, the computation
while a longer communication runs, the communication while a longer computation runs. Main thread only; alike on all
ranks, for the communication needs them all.

One GPU has no collective to disturb a computation with: trimtab-gpu-bench has kernels that stand for one. What it
measures for this model's shapes is passed on (table_lines()).
"""
import json
import subprocess
import tempfile

import torch

from describe import model_document

COVER = 3  # A cover lasts this many times what it covers alone.
COVER_MAX = 256
SHORTEST_NS = 200_000  # Shorter work is repeated: an event is exact to about a microsecond.


class GpuOverlap:
    def __init__(self, compute, launch, device, largest):
        """`compute()` queues one computation; `launch()` starts one communication and returns its work.
        `largest(value)` is the largest of all ranks."""
        self._compute, self._launch, self._device = compute, launch, device
        self._side = torch.cuda.Stream(device)
        for _ in range(3):
            self._alone(self._queue_computation, 1)
            self._alone(self._queue_communication, 1)
        once = largest(self._alone(self._queue_computation, 1)), largest(self._alone(self._queue_communication, 1))
        self._counts = [_times(SHORTEST_NS, nanoseconds) for nanoseconds in once]
        length = [count * nanoseconds for count, nanoseconds in zip(self._counts, once)]
        self._covers = [_times(COVER * length[1], once[0]), _times(COVER * length[0], once[1])]

    def ratios(self):
        """(slowdown of the computation, of the communication), or None where a cover ended early on this rank."""
        computing, communicating = self._counts
        alone = self._alone(self._queue_computation, computing), self._alone(self._queue_communication, communicating)
        disturbed, covered = self._together(computing, self._covers[1])
        cover, communication = self._together(self._covers[0], communicating)
        if covered[1] < disturbed[1] or cover[1] < communication[1]:
            return None
        return _length(disturbed) / alone[0], _length(communication) / alone[1]

    def _queue_computation(self, count):
        for _ in range(count):
            self._compute()

    def _queue_communication(self, count):
        works = [self._launch() for _ in range(count)]
        for work in works:
            work.wait()  # Orders the present stream behind it.

    def _alone(self, queue, count):
        begin, end = _events()
        begin.record()
        queue(count)
        end.record()
        torch.cuda.synchronize(self._device)
        return max(1, round(1e6 * begin.elapsed_time(end)))

    def _together(self, computations, communications):
        """((begin, end) of the computation, of the communication) in nanoseconds from a common start."""
        start = torch.cuda.Event(enable_timing=True)
        computing, communicating = _events(), _events()
        start.record()
        self._side.wait_event(start)
        with torch.cuda.stream(self._side):
            communicating[0].record()
            self._queue_communication(communications)
            communicating[1].record()
        computing[0].record()
        self._queue_computation(computations)
        computing[1].record()
        torch.cuda.synchronize(self._device)
        return [[1e6 * start.elapsed_time(event) for event in pair] for pair in (computing, communicating)]


def _events():
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


def _length(span):
    return span[1] - span[0]


def _times(wanted_ns, once_ns):
    return max(1, min(COVER_MAX, -(-wanted_ns // once_ns)))


def table_lines(program, config, samples, gpu):
    """The program's cost lines as (cost, values); raises OSError or RuntimeError where it cannot be run or fails."""
    torch.cuda.empty_cache()  # It needs memory beside this process.
    with tempfile.NamedTemporaryFile("w", suffix=".json") as model:
        json.dump(model_document(config), model)
        model.flush()
        words = [program, "overlap", "--model", model.name, "--samples", str(samples), "--gpu", str(gpu)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{program} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return costs_in(done.stdout)


def costs_in(output):
    """[(cost, values)] of a benchmark command's output; other lines are passed over."""
    found = []
    for line in output.splitlines():
        document = json.loads(line) if line.startswith("{") else {}
        if "cost" in document:
            found.append((document["cost"], document["values"]))
    return found

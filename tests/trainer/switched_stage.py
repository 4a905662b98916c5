"""One process's part of a stage with memory switches: what it issues, in order, and what it holds at each moment.

The other replicas are not there: what is gathered from them is this one's share again, and sums are its own.
"""
import contextlib

import torch

import plan as plans
from collectives import Launcher
from data import TokenStream
from data_parallel import DataParallel, GradientSync, ParameterGather
from holding import of_rank
from host_memory import Hidden, HostCopies
from model import Pass, operator_specs
from operator_state import OperatorState, initial
from passes import Batch, StagePasses

CPU = torch.device("cpu")


class Order:
    """What was begun: (what, operator), as H3T names it. Ranges tell what is computed."""

    active = False
    COMPUTED = {"forward": "F", "recompute": "FG", "backward": "BW"}

    def __init__(self, specs):
        self.events, self.peak_bytes = [], 0
        self._numbers = {spec.name: spec.index for spec in specs}
        self._held = lambda: 0

    def measure(self, held):
        """From now on `peak_bytes` is the most that held() says at the events."""
        self._held = held

    def add(self, what, operator):
        self.events.append((what, operator))
        self.peak_bytes = max(self.peak_bytes, self._held())

    def range(self, name, payload=0):
        kind, _, rest = name.partition("/")
        if kind == "op":
            operator, _, what = rest.rpartition("/")
            self.add(self.COMPUTED[what], self._numbers[operator])
        return contextlib.nullcontext()


class Group:
    """Of several replicas the only one that is there."""

    def __init__(self, size):
        self.size, self.index = size, 0

    def all_gather(self, outputs, tensor):
        for output in outputs:
            output.copy_(tensor)
        return self

    def reduce_scatter(self, tensor):
        return self

    def wait(self):
        pass


class Gather(ParameterGather):
    def __init__(self, order, *arguments):
        super().__init__(*arguments)
        self._order = order

    def prefetch(self, state):
        if state.holding.lazy:
            self._order.add("PP", state.spec.index)
        super().prefetch(state)

    def gather(self, state):
        if state.holding.released:
            self._order.add("GP", state.spec.index)
        super().gather(state)

    def release(self, state):
        if state.holding.released:
            self._order.add("free", state.spec.index)
        super().release(state)


class Gradients(GradientSync):
    def __init__(self, order, *arguments):
        super().__init__(*arguments)
        self._order = order

    def finished(self, state, last):
        self._order.add("SG", state.spec.index)
        super().finished(state, last)

    def leave(self):
        if self._stays is not None:
            self._order.add("OG", self._stays[0].spec.index)
        super().leave()


class Copies(HostCopies):
    """Hidden states, by the operator whose input they are: of one batch, so in the order of operators."""

    def __init__(self, order, hidden):
        super().__init__(CPU)
        self._order, self._to_put = order, sorted(hidden)

    def put(self, tensor):
        operator = self._to_put.pop(0)
        self._order.add("OH", operator)
        return HiddenOf(operator, self._order, super().put(tensor))

    def join(self):
        self._order.add("join", None)
        super().join()


class HiddenOf(Hidden):
    def __init__(self, operator, order, hidden):
        self.__dict__.update(hidden.__dict__)
        self._operator, self._order = operator, order

    def fetch(self):
        if self._fetched is None:
            self._order.add("PH", self._operator)
        super().fetch()


def plan_of(config, switches, dp=2, recompute=None):
    """One stage of `dp` replicas with the whole model."""
    operators = len(operator_specs(config))
    segment = {"operators": [0, operators], "dp": dp, "tp": 1, "sharded": "gradients" if dp > 1 else "none",
               "recompute": [[0, operators]] if recompute is None else recompute,
               "switches": {"offload_optimizer": True, **switches}}
    return {"schema": plans.SCHEMA, "model": config.name, "global_batch": config.global_batch,
            "microbatch": config.global_batch, "stages": [{"devices": list(range(dp)), "segments": [segment]}]}


class SwitchedStage:
    """One step of rank 0 without its update: `events`, and `peak_bytes` of parameters and gradients on the device."""

    def __init__(self, config, document):
        plan, specs = plans.parse(document, config, len(document["stages"][0]["devices"])), operator_specs(config)
        stage = plan.stages[0]
        segment, order = stage.segments[0], Order(specs)
        self.states = [OperatorState(spec, config, CPU, initial(spec, config, of_rank(plan, 0, spec, config), CPU))
                       for spec in specs]
        parallel = DataParallel.__new__(DataParallel)
        parallel.level, parallel.replicas, parallel.copies = segment.sharded, None, None
        parallel.shards = Group(segment.dp)
        arguments = ({spec.index: parallel for spec in specs}, Launcher(order, CPU),
                     Copies(order, stage.offload_hidden - {0}))  # Tokens stay.
        self._gather, self._sync = Gather(order, *arguments), Gradients(order, *arguments)
        order.measure(self.device_bytes)
        passes = StagePasses(self.states, stage, {}, self._gather, self._sync, order, plan.schedule, arguments[-1])
        self._train(config, passes, order)
        self.events, self.peak_bytes = order.events, order.peak_bytes

    def _train(self, config, passes, order):
        stream, samples = TokenStream(config), [0, 1]
        batch = Batch([Pass(0, samples)])
        tokens, batch.runs[0].targets = stream.batch(samples)
        batch.runs[0].counted = stream.counted(samples)
        passes.forward([tokens], [batch])
        order.add("turn", None)
        passes.backward([None], [batch], lambda state: self._sync.finished(state, True))
        self._sync.wait()

    def device_bytes(self):
        """Of parameters and gradients, wherever they are kept, each storage once."""
        tensors = [fetched.tensor for fetched in self._gather._prefetched.values()]
        tensors += [leaving._tensor for _, leaving in self._sync._leaving]
        tensors += [waiting[1] for waiting in (self._sync._stays, self._sync._scattering) if waiting]
        for state in self.states:
            holding = state.holding
            tensors += [] if holding.lazy else [state.values.parameters]
            tensors += [] if holding.offload_gradient else [state.gradient]
            tensors += [tensor for tensor in (state.gathered, state._whole_gradient) if tensor is not None]
        return sum({pointer: size for pointer, size in map(_storage, tensors) if size}.values())


def _storage(tensor):
    """(address, bytes)"""
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return storage.data_ptr(), storage.nbytes()

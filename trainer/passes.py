"""Forward, recompute and backward of one stage, operator by operator.

Each operator gets a detached input and keeps its own piece of the autograd graph, so that each pass of each operator
is a call of its own that can be timed, recomputed, or followed by its gradient's way to the other replicas.

Around an operator's computation, what the next one needs is brought and what the one before left goes, in H3T's order,
with an operator for its layer: `economical_forward` and `economical_backward` choose between its two.

A pass takes one batch or several. With several an operator begins on the next one while the tensor-parallel ranks
still sum its result for the one before (the schedule of Oases, section IV). Main thread only.
"""
import collections
import dataclasses

import torch

from host_memory import Hidden


@dataclasses.dataclass
class Batch:
    """The samples of a pass on one rank."""

    runs: list  # The model.Pass of each segment: with other replicas a rank has other samples.
    parts: int = 1  # Equal parts of which the rank has a slice each, one after the other.
    # For backward: each operator's _Trace, or its input alone, which may wait on the host as Hidden.
    kept: list = dataclasses.field(default_factory=list)


class _Trace:
    """One operator's pass over one batch, in two halves: what the ranks sum lies between them."""

    def __init__(self, state, run, x, waits):
        """`waits`: sums are waited for at once, there is nothing to do meanwhile."""
        self.state, self._run, self._x, self._waits = state, run, x, waits
        self._inner = self._cut = self._share = self._work = self.output = self.gradient = None

    def begin(self, sums=True):
        """Up to this rank's share of the result. `sums` false where only the graph is needed and not the result."""
        module = self.state.module
        if module.tensor.parts > 1:  # What its ranks say to each other is waited for, in either pass.
            self.output = module(self._x, self._run)
            return
        self._inner = self._cut = module.before(self._x)
        if module.tensor.size > 1 and self._inner.requires_grad:
            self._cut = _leaf(self._inner)  # Its gradient is summed over the ranks before it goes on.
        self._share = module.body(self._cut, self._run)
        if sums and module.summed:
            self._sum(self._share.detach())

    def end(self):
        """From the sum to the output, unless that is there."""
        if self.output is not None:
            return
        self._await()
        self.output = self.state.module.after(self._x, self._share, self._run)
        self._share = None

    def begin_backward(self, gradient):
        torch.autograd.backward(self.output, gradient)
        self.output = None
        if self._cut is not self._inner:
            self._cut.grad = self._cut.grad.contiguous()
            self._sum(self._cut.grad)

    def end_backward(self):
        """From the sum to `gradient`, the input's (None for tokens)."""
        self._await()
        if self._cut is not self._inner:
            torch.autograd.backward(self._inner, self._cut.grad)
        self.gradient = self._x.grad
        self._x = self._inner = self._cut = None

    def _sum(self, tensor):
        if self._waits:
            self.state.module.tensor.all_reduce(tensor)
        else:
            self._work = self.state.module.tensor.launch(tensor)

    def _await(self):
        if self._work is not None:
            self._work.wait()
            self._work = None


class StagePasses:
    def __init__(self, states, stage, changes, gather, gradients, ranges, schedule, host_copies):
        """`states`: the stage's OperatorStates in order. `changes`: operator -> the LayoutChange before it."""
        self._states, self._stage, self._recompute, self._changes = states, stage, stage.recompute, changes
        self._copies, self._gather, self._gradients = host_copies, gather, gradients
        self._ranges, self._schedule = ranges, schedule
        self._segment_of = {operator: number for number, segment in enumerate(stage.segments)
                            for operator in range(segment.begin, segment.end)}

    def forward(self, inputs, batches):
        """The stage's output for each input; what backward needs is kept in the batches."""
        outputs, alone = list(inputs), len(batches) == 1
        begun = collections.deque()  # (place, trace), at most one for each batch.
        self._bring(0)
        for position, state in enumerate(self._states):
            joined = self._join(position, position - 1)
            for place, batch in enumerate(batches):
                if len(begun) == len(batches):
                    self._end_forward(begun.popleft(), outputs, batches)
                if state.spec.index in self._changes:
                    outputs[place] = self._changes[state.spec.index].forward(outputs[place], batch.parts)
                kept = self._move_beside_forward(position, outputs[place], first=place == 0)
                if place == 0 and not joined:
                    self._gather.wait(state)
                begun.append((place, self._begin_forward(state, outputs[place], kept, batch, alone)))
                if alone:
                    self._end_forward(begun.popleft(), outputs, batches)
        while begun:
            self._end_forward(begun.popleft(), outputs, batches)
        return outputs

    def backward(self, gradients, batches, finished=None):
        """Accumulate the parameters' gradients; returns the gradient of each of the stage's inputs (None for tokens).

        `finished(state)` is called after each operator, last first: from then on its gradient is complete if these
        are the step's last batches.
        """
        gradients, alone = list(gradients), len(batches) == 1
        begun = collections.deque()
        self._bring(len(self._states) - 1)
        self._fetch_hidden(batches, len(self._states) - 1)
        for position, state in reversed(list(enumerate(self._states))):
            joined = self._join(position, position + 1)
            economical = state.spec.index in self._stage.economical_backward
            self._prefetch(position - 1)
            if not economical:
                self._fetch_hidden(batches, position - 1)
                self._gather_at(position - 1)
                self._gradients.leave()
            if not joined:
                self._gather.wait(state)
            state.begin_backward()
            recomputes = state.spec.index in self._recompute
            if recomputes and not self._schedule.cross_pass:
                while begun:
                    self._end_backward(begun.popleft(), gradients, batches, finished)
                self._recompute_all(state, batches, alone)
                recomputes = False
            for place, batch in enumerate(batches):
                if recomputes:
                    self._begin_recompute(state, batch, alone)
                if economical and place == 0:  # Beside the last of the operator's computations.
                    self._gather_at(position - 1)
                    self._gradients.leave()
                    self._fetch_hidden(batches, position - 1)
                if len(begun) == len(batches):
                    self._end_backward(begun.popleft(), gradients, batches, finished)
                begun.append((place, batch.kept.pop()))
                self._begin_backward(begun[-1][1], gradients[place], batch, alone)
                if alone:
                    self._end_backward(begun.popleft(), gradients, batches, finished)
        while begun:
            self._end_backward(begun.popleft(), gradients, batches, finished)
        self._gradients.leave()
        return gradients

    def _join(self, position, previous):
        """Before a pass of the operator at `position`, if it is a synchronized layer's first that the pass comes to:
        wait for all that was begun, its parameters too. Returns whether it is.

        Gradients need no more: of their sums one is under way, begun with what precedes this pass.
        """
        spec = self._states[position].spec
        inside = 0 <= previous < len(self._states) and self._states[previous].spec.layer == spec.layer
        if spec.index not in self._stage.synchronized or inside:
            return False
        self._gather.wait(self._states[position])
        self._copies.join()
        return True

    def _prefetch(self, position):
        if 0 <= position < len(self._states):
            self._gather.prefetch(self._states[position])

    def _gather_at(self, position):
        if 0 <= position < len(self._states):
            self._gather.gather(self._states[position])

    def _bring(self, position):
        """Begin to bring the operator's parameters to the device, and together."""
        self._prefetch(position)
        self._gather_at(position)

    def _move_beside_forward(self, position, x, first):
        """What is kept of the input `x` where the operator is recomputed; beside the `first` batch, parameters come."""
        state = self._states[position]
        economical = state.spec.index in self._stage.economical_forward
        if first and not economical:
            self._bring(position + 1)
        kept = self._copies.put(x) if self._offloads(state, x) else x
        if first and economical:
            self._bring(position + 1)
        return kept

    @staticmethod
    def _fetch_hidden(batches, position):
        """Begin to bring back what the backward passes of the operator at `position` need of the host."""
        for batch in batches:
            if position >= 0 and isinstance(batch.kept[position], Hidden):
                batch.kept[position].fetch()

    def _range(self, state, name, batch, alone):
        samples = len(batch.runs[self._segment_of[state.spec.index]].sample_ids)
        return self._ranges.range(f"op/{state.spec.name}/{name}" + ("" if alone else "/overlapped"), samples)

    def _begin_forward(self, state, x, kept, batch, alone):
        keeps = state.spec.index not in self._recompute
        run = batch.runs[self._segment_of[state.spec.index]]
        trace = _Trace(state, run, _leaf(x) if keeps else x, alone)
        with self._range(state, "forward", batch, alone), torch.set_grad_enabled(keeps):
            trace.begin()
            if alone:
                trace.end()
        batch.kept.append(trace if keeps else kept)
        return trace

    def _offloads(self, state, x):
        """Tokens are few and stay."""
        return state.spec.index in self._stage.offload_hidden and x.is_floating_point()

    def _end_forward(self, begun, outputs, batches):
        place, trace = begun
        with torch.set_grad_enabled(trace.state.spec.index not in self._recompute):
            trace.end()
        outputs[place] = trace.output.detach()
        if place == len(batches) - 1:
            self._gather.release(trace.state)

    def _recompute_all(self, state, batches, alone):
        for batch in batches:
            self._begin_recompute(state, batch, alone)
        for batch in batches:
            batch.kept[-1].end()

    def _begin_recompute(self, state, batch, alone):
        """Turn the operator's input, which the batch keeps last, into a trace up to the sum."""
        x = batch.kept.pop()
        x = x.get() if isinstance(x, Hidden) else x
        trace = _Trace(state, batch.runs[self._segment_of[state.spec.index]], _leaf(x), alone)
        with self._range(state, "recompute", batch, alone):
            trace.begin(sums=not self._schedule.recompute_after_communication)
            if alone:
                trace.end()
        batch.kept.append(trace)

    def _begin_backward(self, trace, gradient, batch, alone):
        trace.end()
        with self._range(trace.state, "backward", batch, alone):
            trace.begin_backward(gradient)
            if alone:
                trace.end_backward()

    def _end_backward(self, begun, gradients, batches, finished):
        place, trace = begun
        if len(batches) > 1:
            trace.end_backward()
        gradient, operator = trace.gradient, trace.state.spec.index
        if operator in self._changes:
            gradient = self._changes[operator].backward(gradient, batches[place].parts)
        gradients[place] = gradient
        if place == len(batches) - 1:
            self._gather.release(trace.state)
            if finished is not None:
                finished(trace.state)


def _leaf(x):
    return x.detach().requires_grad_(x.is_floating_point())

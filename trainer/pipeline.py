"""One training step of one rank: 1F1B over its stage, gradient synchronisation, optimizer."""
import dataclasses

import torch

from collectives import TENSOR, Launcher
from data import sample_hash
from data_parallel import DataParallel, GradientSync, ParameterGather
from host_memory import HostCopies
from layout_change import LayoutChange, samples_of
from model import Pass
from passes import Batch, StagePasses
from schedule import FORWARD, actions
from tensor_parallel import ALONE, TensorParallel
from transfers import StageTransfers


@dataclasses.dataclass
class StepResult:
    """This rank's share; summed over ranks it is the step's."""

    loss: float = 0.0
    squared_gradient_norm: float = 0.0
    first_stage_hash: int = 0  # Of the samples that this rank embedded.
    last_stage_hash: int = 0  # Of the samples whose loss it took.


class Pipeline:
    """Executes one plan on one rank. Made new for each plan; owns no parameters and no position in the data."""

    def __init__(self, plan, rank, config, stream, groups, ranges, states, recipe, device):
        self._plan, self._rank, self._config, self._stream = plan, rank, config, stream
        self._ranges, self._states, self._recipe, self._device = ranges, states, recipe, device
        self._stage = stage = plan.stage_of_rank(rank)
        self._is_first, self._counted = stage.index == 0, 0
        self._is_last = stage.index == len(plan.stages) - 1
        self._actions = actions(plan.schedule, stage.index, len(plan.stages), plan.microbatches)
        launcher = Launcher(ranges, device)
        parallel_of = self._share_operators(groups, launcher)
        copies = HostCopies(device)
        self._gather = ParameterGather(parallel_of, launcher, copies)
        self._sync = GradientSync(parallel_of, launcher, copies)
        changes = {after.begin: LayoutChange(before, after, rank, groups, launcher)
                   for before, after in zip(stage.segments, stage.segments[1:])}
        self._passes = StagePasses(states, stage, changes, self._gather, self._sync, ranges, plan.schedule, copies)
        self._transfers = StageTransfers(plan, rank, groups, ranges, config, device)

    def _share_operators(self, groups, launcher):
        """Tell each operator with whom it is shared; returns operator -> DataParallel."""
        parallel_of = {}
        for segment in self._stage.segments:
            place, tensor = segment.place_of(self._rank), ALONE
            if segment.tp > 1:
                members = segment.tensor_members(place)
                tensor = TensorParallel(groups.group(TENSOR, members), place.tensor_rank, launcher)
            parallel = DataParallel(segment, self._rank, groups)
            for state in self._states:
                if segment.begin <= state.spec.index < segment.end:
                    state.module.tensor = tensor
                    parallel_of[state.spec.index] = parallel
        return parallel_of

    def run_step(self, step):
        """Train on global batch number `step`; returns this rank's StepResult."""
        result = StepResult()
        loss = torch.zeros((), device=self._device)
        if self._is_last:
            first = step * self._plan.global_batch
            self._counted = self._stream.counted(range(first, first + self._plan.global_batch))
        kept = {}  # Microbatch -> the Batches whose backward pass is to come.
        for position, action in enumerate(self._actions):
            received = [self._transfers.receive(action.kind, action.microbatch, parts) for parts in action.batches]
            if position + 1 < len(self._actions):
                self._transfers.post(self._actions[position + 1])
            if action.kind == FORWARD:
                loss += self._forward(step, action, received, kept, result)
            else:
                self._backward(action, received, kept.pop(action.microbatch))
            del received
        self._transfers.finish()
        self._sync.wait()
        if self._answers(self._stage.segments[-1]):
            result.loss = float(loss)
        self._update(step, result)
        return result

    def _forward(self, step, action, received, kept, result):
        """The loss of the action's batches where it is taken here, else 0."""
        batches = []
        for place, parts in enumerate(action.batches):
            batch, tokens = self._prepare(step, action.microbatch, parts, result)
            batches.append(batch)
            if tokens is not None:
                received[place] = tokens
        kept.setdefault(action.microbatch, []).extend(batches)
        outputs = self._passes.forward(received, batches)
        if self._is_last:
            return sum(outputs)
        for parts, output in zip(action.batches, outputs):
            self._transfers.send(FORWARD, action.microbatch, parts, output)
        return 0.0

    def _backward(self, action, received, batches):
        last = action.microbatch == self._plan.microbatches - 1
        gradients = self._passes.backward(
            received, batches, lambda state: self._sync.finished(state, last))
        for parts, gradient in zip(action.batches, gradients):
            self._transfers.send(action.kind, action.microbatch, parts, gradient)

    def _answers(self, segment):
        """Of the ranks that compute the same samples one reports them."""
        return segment.place_of(self._rank).tensor_rank == 0

    def _prepare(self, step, microbatch, parts, result):
        """The Batch, and its tokens where the embedding is."""
        runs = [Pass(step, self._samples(segment, step, microbatch, parts)) for segment in self._stage.segments]
        tokens = None
        if self._is_first:
            tokens = self._stream.batch(runs[0].sample_ids)[0].to(self._device)
            if self._answers(self._stage.segments[0]):
                result.first_stage_hash += sample_hash(runs[0].sample_ids)
        if self._is_last:
            runs[-1].targets = self._stream.batch(runs[-1].sample_ids)[1].to(self._device)
            runs[-1].counted = self._counted
            if self._answers(self._stage.segments[-1]):
                result.last_stage_hash += sample_hash(runs[-1].sample_ids)
        return Batch(runs, len(parts)), tokens

    def _samples(self, segment, step, microbatch, parts):
        """Ids of this rank's samples in the segment, part by part."""
        size = self._plan.part_of(microbatch)
        low, high = samples_of(segment, self._rank, size)
        base = step * self._plan.global_batch + microbatch * self._plan.microbatch
        return [base + part * size + sample for part in parts for sample in range(low, high)]

    def _update(self, step, result):
        with self._ranges.range("optimizer", 0):
            squared_norms = [state.update(self._recipe, step + 1) for state in self._states]
        self._gather.after_update(self._states)
        result.squared_gradient_norm = sum(float(squared_norm) for squared_norm in squared_norms)

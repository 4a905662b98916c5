"""One training step of one rank: the passes of its stages in the schedule's order, gradient synchronisation, optimizer."""
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
from sequence_sharing import SequenceParallel, Sharers
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
        self._ranges, self._states, self._recipe = ranges, states, recipe
        stages = plan.stages_of_rank(rank)
        self._actions = actions(plan.schedule, stages[0].index, plan.seats, len(plan.stages), plan.microbatches)
        launcher, copies = Launcher(ranges, device), HostCopies(device)
        parallel_of = {}
        for segment in (segment for stage in stages for segment in stage.segments):
            parallel_of.update(_share_operators(segment, rank, states, groups, launcher))
        self._gather = ParameterGather(parallel_of, launcher, copies)
        self._sync = GradientSync(parallel_of, launcher, copies)
        self._stages = {}
        for stage in stages:
            changes = {after.begin: LayoutChange(before, after, rank, groups, launcher)
                       for before, after in zip(stage.segments, stage.segments[1:])}
            own = [state for state in states if stage.begin <= state.spec.index < stage.end]
            passes = StagePasses(own, stage, changes, self._gather, self._sync, ranges, plan.schedule, copies)
            transfers = StageTransfers(plan, stage, rank, groups, ranges, config, device)
            self._stages[stage.index] = _StageSteps(plan, stage, rank, config, stream, device, passes, transfers, self._sync)

    def run_step(self, step):
        """Train on global batch number `step`; returns this rank's StepResult."""
        result = StepResult()
        for stage in self._stages.values():
            stage.begin(step, result)
        for action, following in zip(self._actions, [*self._actions[1:], None]):
            stage = self._stages[action.stage]
            received = [stage.transfers.receive(action.kind, action.microbatch, parts) for parts in action.batches]
            if following is not None:
                self._stages[following.stage].transfers.post(following)
            stage.run(action, received)
            del received
        for stage in self._stages.values():
            stage.transfers.finish()
        self._sync.wait()
        self._sync.sum_whole(self._states)
        for stage in self._stages.values():
            stage.end()
        self._update(step, result)
        return result

    def _update(self, step, result):
        with self._ranges.range("optimizer", 0):
            squared_norms = [state.update(self._recipe, step + 1) for state in self._states]
        self._gather.after_update(self._states)
        result.squared_gradient_norm = sum(float(squared_norm) for squared_norm in squared_norms)


def _share_operators(segment, rank, states, groups, launcher):
    """Tell each operator of the segment with whom it and its sequences are shared; returns operator -> DataParallel."""
    place, tensor, context = segment.place_of(rank), ALONE, ALONE
    if segment.tp > 1:
        group = groups.group(TENSOR, segment.tensor_members(place))
        if segment.sequence:
            tensor = SequenceParallel(group, list(map(segment.rank_at, segment.tensor_places(place))), launcher)
        else:
            tensor = TensorParallel(group, place.tensor_rank, launcher)
    if segment.cp > 1:
        group = groups.group(TENSOR, segment.context_members(place))
        context = Sharers(group, list(map(segment.rank_at, segment.context_places(place))), launcher)
    parallel, parallel_of = DataParallel(segment, rank, groups), {}
    for state in states:
        if segment.begin <= state.spec.index < segment.end:
            state.module.tensor, state.module.context = tensor, context
            parallel_of[state.spec.index] = parallel
    return parallel_of


class _StageSteps:
    """The passes of one of the rank's stages in a step."""

    def __init__(self, plan, stage, rank, config, stream, device, passes, transfers, sync):
        self._plan, self._stage, self._rank, self._stream, self._device = plan, stage, rank, stream, device
        self._passes, self.transfers, self._sync = passes, transfers, sync
        self._is_first, self._is_last = stage.index == 0, stage.index == len(plan.stages) - 1
        segment = stage.segments[0]
        tokens = config.sequence // segment.cp
        self._part = segment.place_of(rank).replica % segment.cp
        self._tokens = slice(self._part * tokens, (self._part + 1) * tokens)  # Of each sequence, those of this rank's part.

    def begin(self, step, result):
        """`result` is added to."""
        self._step, self._result = step, result
        if self._is_last:
            first = step * self._plan.global_batch
            self._counted = self._stream.counted(range(first, first + self._plan.global_batch))
        self._loss = torch.zeros((), device=self._device)
        self._kept = {}  # Microbatch -> the Batches whose backward pass is to come.

    def run(self, action, received):
        if action.kind == FORWARD:
            self._forward(action, received)
        else:
            self._backward(action, received, self._kept.pop(action.microbatch))

    def end(self):
        if self._answers(self._stage.segments[-1]):
            self._result.loss += float(self._loss)

    def _forward(self, action, received):
        batches = []
        for place, parts in enumerate(action.batches):
            batch, tokens = self._prepare(action.microbatch, parts)
            batches.append(batch)
            if tokens is not None:
                received[place] = tokens
        self._kept.setdefault(action.microbatch, []).extend(batches)
        outputs = self._passes.forward(received, batches)
        if self._is_last:
            self._loss += sum(outputs)
            return
        for parts, output in zip(action.batches, outputs):
            self.transfers.send(FORWARD, action.microbatch, parts, output)

    def _backward(self, action, received, batches):
        last = action.microbatch == self._plan.microbatches - 1
        gradients = self._passes.backward(
            received, batches, lambda state: self._sync.finished(state, last))
        for parts, gradient in zip(action.batches, gradients):
            self.transfers.send(action.kind, action.microbatch, parts, gradient)

    def _answers(self, segment):
        """Of the ranks that compute the same samples and tokens one reports them."""
        return segment.place_of(self._rank).tensor_rank == 0

    def _prepare(self, microbatch, parts):
        """The Batch, and its tokens where the embedding is."""
        runs = [Pass(self._step, self._samples(segment, microbatch, parts)) for segment in self._stage.segments]
        tokens = None
        if self._is_first:
            tokens = self._stream.batch(runs[0].sample_ids)[0][:, self._tokens].to(self._device)
            if self._answers(self._stage.segments[0]) and self._part == 0:
                self._result.first_stage_hash += sample_hash(runs[0].sample_ids)
        if self._is_last:
            runs[-1].targets = self._stream.batch(runs[-1].sample_ids)[1][:, self._tokens].to(self._device)
            runs[-1].counted = self._counted
            if self._answers(self._stage.segments[-1]) and self._part == 0:
                self._result.last_stage_hash += sample_hash(runs[-1].sample_ids)
        return Batch(runs, len(parts)), tokens

    def _samples(self, segment, microbatch, parts):
        """Ids of this rank's samples in the segment, part by part."""
        size = self._plan.part_of(microbatch)
        low, high = samples_of(segment, self._rank, size)
        base = self._step * self._plan.global_batch + microbatch * self._plan.microbatch
        return [base + part * size + sample for part in parts for sample in range(low, high)]

"""One training step of one rank: 1F1B over its stage, gradient synchronisation, optimizer."""
import dataclasses

import torch

from data import sample_hash
from gradient_sync import GradientSync
from model import Pass
from passes import StagePasses
from schedule import BACKWARD, FORWARD, one_forward_one_backward
from transfers import StageTransfers, slice_of


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
        self._stage = plan.stage_of_rank(rank)
        self._is_first = self._stage.index == 0
        self._is_last = self._stage.index == len(plan.stages) - 1
        self._order = one_forward_one_backward(self._stage.index, len(plan.stages), plan.microbatches)
        self._passes = StagePasses(states, self._stage.recompute, ranges)
        self._transfers = StageTransfers(
            plan, rank, groups, ranges, (config.sequence, config.hidden), device)
        self._sync = GradientSync(groups.data_parallel(self._stage.devices), self._stage.replicas, ranges, device)

    def run_step(self, step):
        """Train on global batch number `step`; returns this rank's StepResult."""
        result = StepResult()
        loss = torch.zeros((), device=self._device)
        for position, (kind, microbatch) in enumerate(self._order):
            received = self._transfers.receive(kind, microbatch)
            if position + 1 < len(self._order):
                self._transfers.post(*self._order[position + 1])
            if kind == FORWARD:
                run, tokens = self._prepare(step, microbatch, result)
                output = self._passes.forward(microbatch, received if tokens is None else tokens, run)
                if self._is_last:
                    loss += output
                else:
                    self._transfers.send(FORWARD, microbatch, output)
                del output
            else:
                last = microbatch == self._plan.microbatches - 1
                gradient = self._passes.backward(
                    microbatch, received, self._sync.launch if last else None)
                self._transfers.send(BACKWARD, microbatch, gradient)
                del gradient
            del received
        self._transfers.finish()
        self._sync.wait()
        result.loss = float(loss)
        self._update(step, result)
        return result

    def _prepare(self, step, microbatch, result):
        """The pass's samples, and its tokens where the embedding is."""
        low, high = slice_of(self._stage.devices.index(self._rank), self._stage.replicas, self._plan.microbatch)
        base = step * self._plan.global_batch + microbatch * self._plan.microbatch
        run = Pass(step, list(range(base + low, base + high)))
        tokens = None
        if self._is_first or self._is_last:
            tokens, targets = self._stream.batch(run.sample_ids)
            if self._is_last:
                run.targets = targets.to(self._device)
                result.last_stage_hash += sample_hash(run.sample_ids)
            if self._is_first:
                result.first_stage_hash += sample_hash(run.sample_ids)
        return run, tokens.to(self._device) if self._is_first else None

    def _update(self, step, result):
        with self._ranges.range("optimizer", 0):
            squared_norms = [state.update(self._recipe, step + 1) for state in self._states]
        for state, squared_norm in zip(self._states, squared_norms):
            if self._plan.owner(state.spec.index) == self._rank:
                result.squared_gradient_norm += float(squared_norm)

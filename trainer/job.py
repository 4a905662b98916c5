"""One rank's training run: its plan, its state, and the loop of steps with what may happen between two of them.

Main thread only. Knows plans and states; the arguments, the process groups and the end of the process are train.py's.
"""
import dataclasses
import json
import sys
import time

import torch

from control import Control
from data import TokenStream
from earlier_plans import EarlierPlans
from errors import OutsideFailure
from holding import of_rank
from measuring import LiveBench
from memory import lift_allocation_limit, limit_allocations, release_unused
from model import operator_specs
from operator_state import OperatorState, Recipe, initial
from pipeline import Pipeline
from plan import parse
from plan_change import ChangePhases, move_values, peak_state_bytes, settled_bytes
from snapshot import SnapshotStore
from trimtab import LearningGuard, Refused
from warm_up import warm_up

MIB = 1 << 20


@dataclasses.dataclass
class Settings:
    steps: int
    limit_bytes: int = 0  # 0: no limit.
    snapshots: str = ""
    snapshot_every: int = 0
    log: str = ""
    log_ranks: bool = False
    launch: str = ""  # For the log.
    local_rank: int = 0


class TrainingJob:
    def __init__(self, config, plan, settings, *, process, groups, client, memory, faults, terminated):
        """`process`: the RankProcess. `terminated()` says whether it was asked to end by a signal."""
        self._config, self._plan, self._settings = config, plan, settings
        self._groups, self._client, self._memory, self._faults = groups, client, memory, faults
        self._process, self._device, self._terminated = process, process.device, terminated
        self._rank = groups.rank
        self._host_apart = self._device.type == "cuda"  # A CPU's memory and the host's are one, and the limit is on it.
        self._specs = operator_specs(config)
        self._stream = TokenStream(config)
        self._recipe = Recipe(config.learning_rate, config.weight_decay)
        self._control = Control(groups)
        self._snapshots = None
        if settings.snapshots:
            self._snapshots = SnapshotStore(settings.snapshots, self._rank, groups, self._specs, config)
        self._epoch = process.retreat.epoch if process.retreat else client.epoch
        self._earlier = EarlierPlans()  # What to return to if the present one fails.
        self._guard = LearningGuard()
        self._adopted = None  # Whether the running plan is the incumbent; None: no step has told yet.
        self._phases = ChangePhases()  # Of the newest change of plan.
        self._log = self._open_log(settings)
        self._states, self._step = [], 0
        self._bench = None  # Once something is measured again.
        warm_up(self._device, config.precision)
        release_unused()
        self._base_bytes = memory.held_bytes()  # The process without parameters.

    def _open_log(self, settings):
        if not settings.log or not (settings.log_ranks or self._rank == 0):
            return None
        return open(settings.log + (f".{self._rank}" if settings.log_ranks else ""), "a", encoding="utf-8")

    def prepare(self):
        """Load the newest snapshot or start anew, and build the pipeline of the initial plan. Returns the next step."""
        need = self._base_bytes + self._settled_bytes(self._plan)
        if self._settings.limit_bytes and need > self._settings.limit_bytes:
            raise OutsideFailure(self._over_limit_message(self._rank, need))
        snapshot = self._snapshots.load(self._plan, self._device) if self._snapshots else None
        if snapshot:
            self._step, values = snapshot.step, snapshot.values
        else:
            values = {spec.index: initial(spec, self._config, holding, self._device)
                      for spec, holding in self._holdings(self._plan)}
        self._train(values)
        self._build()
        self._client.begin(self._step)
        failed = self._process.retreat
        if failed:
            self._client.failed(failed.failed_epoch, self._step, reason=failed.reason, message=failed.message,
                                active_epoch=failed.epoch)
        return self._step

    def run(self):
        """Train to the last step, or to an agreed stop. Returns the number of steps done in all."""
        while self._step < self._settings.steps:
            change = self._train_one_step()
            spoilt = self._guard.judge(self._control.summary.loss, self._control.summary.gradient_norm)
            self._note_adoption()
            if self._control.over_limit is not None:
                self._give_up_plan("out_of_memory", self._over_limit_message(*self._control.over_limit), change)
            elif spoilt:
                self._leave_spoilt(spoilt, change)
            elif self._control.stop:
                self._save_if(self._settings.snapshot_every)
                break
            elif change is not None:
                self._adopt(change)
            elif self._settings.snapshot_every and self._step % self._settings.snapshot_every == 0:
                self._save_periodically()
            if self._control.measures:
                self._measure_again()
        return self._step

    def _measure_again(self):
        """What the agents asked of all ranks, between two steps. What it took of memory is no plan's."""
        if self._bench is None:
            self._bench = LiveBench(self._config, self._groups, self._device, self._settings.local_rank)
        request, peak, seed = self._client.take_measuring(), self._memory.peak_bytes(), torch.get_rng_state()
        lift_allocation_limit(self._device)  # Groups map more than they touch.
        result = self._bench.run(request)
        torch.set_rng_state(seed)
        release_unused()
        if self._memory.peak_bytes() > peak:
            self._memory.mark()
        self._limit_allocations()
        self._client.measured(request["number"], self._step, result)

    def _note_adoption(self):
        """A trial's plan that stays is watched anew: its first watch may be over, or nearly."""
        if self._control.adopted and self._adopted is False:
            self._guard.adopted()
        self._adopted = self._control.adopted

    def _runs(self, epoch):
        """The plan of `epoch` runs from the next step on."""
        self._epoch, self._adopted = epoch, None

    def _save_periodically(self):
        """Where some rank cannot write its part, the snapshot before stands and training goes on."""
        try:
            self._save_if(not self._guard.watching)  # A state in doubt must not take a good one's place.
        except OutsideFailure as error:
            if self._rank == 0:
                print(f"step {self._step} goes without its snapshot: {error}", file=sys.stderr, flush=True)

    def close(self):
        self._client.close(self._step)
        if self._log:
            self._log.close()

    def _train_one_step(self):
        """One step and the round of agreement that follows it. Returns the agreed plan change, or None."""
        self._faults.reach("step", self._step)
        self._faults.spoil(self._epoch, self._adopted, self._states)
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        with self._client.range("step", self._step):
            result = self._pipeline.run_step(self._step)
            peak = self._memory.peak_bytes()
            self._control.present(
                result, stop_heard=lambda: self._client.stop_requested, terminated=self._terminated(),
                peak_bytes=peak, limit_bytes=self._settings.limit_bytes,
                adoption_heard=lambda: self._client.runs_incumbent, measuring_heard=lambda: self._client.measuring)
            change = self._client.next_plan(self._step + 1, self._control.agree, self._validate)
        wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
        summary = self._control.summary
        if self._memory.grew(peak):
            self._client.prepared()
        self._client.step(self._step, wall_ns=wall, cpu_ns=cpu, loss=summary.loss,
                          gradient_norm=summary.gradient_norm, samples=summary.samples, peak_bytes=peak)
        if self._log:
            line = {"step": self._step, "epoch": self._epoch, "loss": summary.loss, "wall_ns": wall,
                    "samples": summary.samples, "peak_bytes": summary.peaks, "plan": self._plan.digest,
                    "tensor_parallel": max(segment.tp for stage in self._plan.stages for segment in stage.segments),
                    "launch": self._settings.launch, "attempt": self._process.attempt}
            print(json.dumps(line), file=self._log, flush=True)
        self._step += 1
        return change

    def _validate(self, document):
        """Refuse a proposed plan that this rank cannot run, or cannot change to within its memory."""
        plan = parse(document, self._config, self._groups.world_size)
        need = self._change_bytes(plan)
        limit = self._settings.limit_bytes
        if limit and need > limit:
            raise Refused("memory", f"switching needs {need // MIB} MiB of {limit // MIB} MiB on rank {self._rank}")
        return plan

    def _change_bytes(self, plan):
        return self._base_bytes + peak_state_bytes(self._plan, plan, self._rank, self._specs, self._config, self._host_apart)[0]

    def _settled_bytes(self, plan):
        return sum(settled_bytes(holding, self._host_apart) for _, holding in self._holdings(plan))

    def _holdings(self, plan):
        """[(operator, this rank's Holding)] of its stages."""
        held = [(spec, of_rank(plan, self._rank, spec, self._config)) for spec in self._specs]
        return [(spec, holding) for spec, holding in held if holding]

    def _train(self, values):
        """Train these values (operator -> Values, in order) from now on."""
        self._states = [OperatorState(self._specs[index], self._config, self._device, kept)
                        for index, kept in values.items()]

    def _adopt(self, change):
        """Switch to an agreed plan, or report why all ranks stay."""
        plan = parse(change.plan, self._config, self._groups.world_size)
        began = time.perf_counter_ns()
        earlier = self._earlier.after(self._plan, self._epoch, plan)
        # The last update may have spoilt what no step has shown yet.
        if self._guard.watching and not self._groups.minimum(int(self._is_finite())):
            self._leave_spoilt("a parameter is no finite number", change)
            return
        fits = not self._settings.limit_bytes or self._change_bytes(plan) <= self._settings.limit_bytes
        if not self._groups.minimum(int(fits)):
            self._client.failed(change.epoch, self._step, reason="memory",
                                message="switching does not fit into the memory limit of a rank")
            return
        try:
            with self._client.range("switch", change.epoch):
                self._prepare_retreat(*earlier.latest, change.epoch)
                self._phases = ChangePhases()
                peak = self._change_to(plan)
        except OutsideFailure as error:  # No snapshot, on any rank: then nothing has moved, and training can go on.
            self._build()
            self._prepare_retreat(*self._earlier.latest, self._epoch)
            self._client.failed(change.epoch, self._step, reason="snapshot", message=error)
            return
        self._earlier = earlier
        self._runs(change.epoch)
        self._guard.changed()
        self._client.activated(change.epoch, self._step, peak_bytes=peak, phases=self._phases.ns,
                               switch_ns=time.perf_counter_ns() - began)

    def _change_to(self, plan):
        """Snapshot, move, rebuild. Returns the peak of memory in it.

        Raises OutsideFailure, with nothing moved yet, where a rank could not write its part of the snapshot.
        """
        if plan.digest == self._plan.digest:  # A new epoch alone: it needs no snapshot, which a full disk would refuse.
            return self._memory.peak_bytes()
        self._faults.reach("before_snapshot", self._step)
        lift_allocation_limit(self._device)  # What a change takes was checked; its groups map more than they touch.
        self._pipeline = None
        self._memory.mark()
        with self._phases.of("save"):
            self._save_if(True)
        self._faults.reach("after_snapshot", self._step)
        values = {state.spec.index: state.values for state in self._states}
        self._states = []  # Gradients and modules go before values move.
        release_unused()
        with self._phases.of("move"):
            move_values(self._plan, plan, self._rank, self._specs, self._config, self._groups, values, self._device,
                        self._faults, self._step)
        with self._phases.of("build"):
            self._train(values)
        self._faults.reach("moved", self._step)
        self._plan = plan
        peak = self._memory.peak_bytes()
        self._build()
        return peak

    def _build(self):
        with self._phases.of("groups"):
            self._groups.prepare(self._plan)
        with self._phases.of("build"):
            self._pipeline = Pipeline(self._plan, self._rank, self._config, self._stream, self._groups,
                                      self._client.ranges, self._states, self._recipe, self._device)
        self._groups.barrier()
        self._memory.mark()
        self._limit_allocations()

    def _limit_allocations(self):
        if self._settings.limit_bytes:
            limit_allocations(self._settings.limit_bytes, self._memory.held_bytes(), self._device)

    def _prepare_retreat(self, plan, epoch, failed_epoch):
        """There is a state to go back to only where snapshots are written, and a plan only after a change."""
        if self._snapshots:
            self._process.prepare_retreat(plan.document if plan else None, epoch, failed_epoch)

    def _leave_spoilt(self, why, change):
        """The running plan has changed what is learnt: return to the state from before it, where there is one."""
        if change is not None:
            self._client.failed(change.epoch, self._step, reason="superseded",
                                message=f"the plan of epoch {self._epoch} failed at the same step")
        self._process.retreat_from("loss", why)
        self._give_up_plan("loss", f"{why}; without --snapshots its updates stay", None)

    def _is_finite(self):
        """Is the state that this rank holds?"""
        return all(bool(torch.isfinite(tensor).all()) for state in self._states
                   for tensor in (state.values.parameters, state.values.moments))

    def _give_up_plan(self, reason, message, change):
        """The running plan does not do: return to the one before it, if there is one."""
        failed_epoch = self._epoch
        plan, epoch = self._earlier.latest
        if plan is None:
            self._client.failed(failed_epoch, self._step, reason=reason, message=message)
            raise OutsideFailure(message)
        self._earlier = self._earlier.without_latest()
        if change is not None:
            self._client.failed(change.epoch, self._step, reason="superseded",
                                message=f"the plan of epoch {failed_epoch} failed at the same step")
        with self._client.range("switch", epoch):
            self._prepare_retreat(plan, epoch, failed_epoch)
            self._change_to(plan)
        self._prepare_retreat(*self._earlier.latest, epoch)
        self._runs(epoch)
        self._client.failed(failed_epoch, self._step, reason=reason, message=message, active_epoch=epoch)

    def _over_limit_message(self, rank, needed):
        return (f"rank {rank} needs {needed // MIB} MiB, the memory limit is "
                f"{self._settings.limit_bytes // MIB} MiB: choose a plan that keeps less, or raise --memory-limit")

    def _save_if(self, wanted):
        if wanted and self._snapshots:
            self._snapshots.save(self._step, self._plan, self._states)

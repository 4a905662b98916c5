"""PyTorch's own data parallelism as a plan says it, in five lines of a training script:

    import trimtab.parallel
    run = trimtab.parallel.load(batch_size=16)                       # what `trimtab plan export --to ddp` wrote
    model = run.wrap(model, model.layers)                            # checkpointing, then DDP or FSDP of either kind
    optimizer = run.optimizer(model, torch.optim.AdamW, lr=1e-3)     # ZeroRedundancyOptimizer where the plan says so
    for step in run.steps(first, last):                              # tells Trimtab of each; ends early when asked to
        run.step(model, optimizer, batch, loss_of)                   # microbatches, no_sync(), one optimizer step

`batch` is this rank's share of the global batch: a tensor, or tuples, lists and dictionaries of tensors, samples first;
`loss_of(model, part)` returns the mean loss of a part of it. The process group is the script's own affair and exists
before wrap(). PyTorch is loaded when it is needed, not by importing this. In a job with delivery = "live" the plan changes between two
steps, in the script's own objects (parallel_changes.py).

Without a plan (no file is named, TRIMTAB_TARGET_CONFIG is not set) the same lines are plain DDP or FSDP: what load() was given.
Without a process group they train in this process alone. Nothing of Trimtab has to be there but this package.

Epochs: `for epoch in run.epochs(first, last): for batch in run.batches(loader): run.step(model, optimizer, batch, loss_of)`.
A loader's batch has `run.configuration.samples_per_rank` samples, an epoch's last one may have fewer.

Samples, their order, the mean over them and the optimizer's arithmetic stay the same: of a model in which each sample is computed
by itself, the knobs change the order of sums alone. With dropout the masks are drawn for each microbatch: other ones with another
plan (class = "statistical" in job.toml says that this may be). With batch norm, or a loss that is no mean over samples, another
microbatch learns something else: set microbatch = false in job.toml, [knobs] (docs/targets.md).
"""
import contextlib
import functools
import math
import os
import signal
import time

from . import measuring_again
from .client import Client
from .out_of_memory import is_out_of_memory
from .parallel_changes import Changes, Wrapped, buckets_of
from .parallel_plan import BadConfiguration, Configuration, parse, plain, read, samples_in, split_samples

__all__ = ["BadConfiguration", "Configuration", "Run", "load", "parse", "split_samples"]


def load(path=None, *, kind="ddp", batch_size=None, gradient_accumulation_steps=1):
    """The Run of the file at `path`, or at TRIMTAB_TARGET_CONFIG. Without either the Run of what the other arguments say, which
    a plan takes the place of: `kind` "ddp", "fsdp" (FullyShardedDataParallel) or "fsdp2" (fully_shard, since PyTorch 2.6),
    batch_size samples in each of gradient_accumulation_steps microbatches of a rank. Without batch_size a rank takes the batches that it is given.
    """
    path = path or os.environ.get("TRIMTAB_TARGET_CONFIG", "")
    if path:
        return Run(read(path))
    return Run(plain(kind, batch_size, gradient_accumulation_steps, _world_size()), planned=False)


def _group():
    """torch.distributed where this process is in a group, else None."""
    import torch.distributed as distributed

    return distributed if distributed.is_available() and distributed.is_initialized() else None


def _world_size():
    group = _group()
    return group.get_world_size() if group else int(os.environ.get("WORLD_SIZE") or 1)


def _environment():
    """A job that its user launched (TRIMTAB_WATCH) is told of by the hooks in its interpreter: a second voice would contradict."""
    return {} if os.environ.get("TRIMTAB_WATCH") == "1" else os.environ


def _telling_of_memory(method):
    """What runs out of memory here ends this rank: plans that need as much need not be tried."""

    @functools.wraps(method)
    def told(self, *arguments, **named):
        try:
            return method(self, *arguments, **named)
        except Exception as error:
            if is_out_of_memory(error):
                self._client.out_of_memory(error)
            raise

    return told


@contextlib.contextmanager
def _without_sync(model):
    """Gradients stay on each rank: of a microbatch that is not a step's last."""
    if hasattr(model, "no_sync"):
        with model.no_sync():
            yield
    elif hasattr(model, "set_requires_gradient_sync"):  # fully_shard's
        model.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            model.set_requires_gradient_sync(True)
    else:
        yield


class Run:
    """A training run under one configuration. Main thread only."""

    def __init__(self, configuration, client=None, planned=True):
        self.configuration = configuration
        self.planned = planned  # by a file; else the script's own words
        self.loss = None  # of the last step: the mean over the global batch
        self.next_step = 0
        self._client = client or Client(_environment(), measures=True, in_target=True)
        self._changes = Changes(self._client)
        self._usual = self._client.epoch  # What every rank offers where no change of plan is in sight.
        self._adopted = True
        self._measures = 0  # what all ranks measure again after this step
        self._phases = {}
        self._depth = 0  # of loops: the outermost says hello and goodbye
        self._asked = False
        self._stop = False
        self._last_step = None  # of epochs(): how many there are in all
        self._in_batches = False
        self._short = False  # the batch before had fewer samples than a rank takes

    @property
    def stopped(self):
        """All ranks agreed to end after the last step: by a signal, or because Trimtab asked."""
        return self._stop

    @_telling_of_memory
    def wrap(self, model, layers=(), **named):
        """The model under checkpointing and data parallelism; `layers` are its equal blocks, in order.

        named: arguments of DistributedDataParallel, FullyShardedDataParallel or fully_shard. What the plan says takes their
        place. fully_shard shards the model itself, which is returned.
        """
        chosen, group = self.configuration, _group()
        ranks = group.get_world_size() if group else 1
        if self.planned and ranks != chosen.world_size:
            raise BadConfiguration(f"the plan is for {chosen.world_size} ranks, but {ranks} run")
        if chosen.checkpoint_layers and len(layers) != chosen.layers:
            raise BadConfiguration(f"the plan counts {chosen.layers} layers, but wrap() was given {len(layers)}")
        made = Wrapped(layers)
        made.recompute(chosen.checkpoint_layers)
        self._changes.add(made)
        if group is None:
            return model
        begin = time.perf_counter_ns()
        if chosen.kind == "ddp":
            wrapped = self._ddp(model, named)
            made.under_ddp(wrapped, named)
        else:
            wrapped = {"fsdp": self._fsdp, "fsdp2": self._fsdp2}[chosen.kind](model, layers, named)
        # Their first collectives make the communicators.
        self._phases["groups"] = time.perf_counter_ns() - begin
        return wrapped

    def _ddp(self, model, named):
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model, **{**named, **buckets_of(self.configuration)})

    def _fsdp(self, model, layers, named):
        from torch.distributed import fsdp

        if self.planned:
            strategy = getattr(fsdp.ShardingStrategy, self.configuration.sharding_strategy, None)
            if strategy is None:
                raise BadConfiguration(f"this PyTorch has no sharding strategy {self.configuration.sharding_strategy}")
            named.update({"sharding_strategy": strategy, **self._shard_groups()})
        # A policy of the script's own says which modules are sharded by themselves.
        blocks = set() if "auto_wrap_policy" in named else {id(layer) for layer in layers}
        for module in list(model.modules()):
            for name, child in list(module.named_children()):
                if id(child) in blocks:
                    setattr(module, name, fsdp.FullyShardedDataParallel(child, **named))
        return fsdp.FullyShardedDataParallel(model, **named)

    def _shard_groups(self):
        """Process groups to shard in and to replicate over, where not all ranks shard together."""
        import torch.distributed as distributed

        size, world = self.configuration.shard_group_size, self.configuration.world_size
        if size in (1, world):
            return {}

        def mine(groups):
            made = [(ranks, distributed.new_group(list(ranks))) for ranks in groups]
            return next(group for ranks, group in made if distributed.get_rank() in ranks)

        shard = mine([range(first, first + size) for first in range(0, world, size)])
        return {"process_group": (shard, mine([range(place, world, size) for place in range(size)]))}

    def _fsdp2(self, model, layers, named):
        """Each layer is gathered by itself, and what stands around them together."""
        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError:
            raise BadConfiguration("this PyTorch has no fully_shard, which came with 2.6; kind=\"fsdp\" is there before") from None
        whole = dict(named)  # of the root, which PyTorch by itself keeps gathered after its forward pass
        if self.planned:
            whole["mesh"] = self._mesh(next(model.parameters()).device.type)
            if not self.configuration.reshard_after_forward:
                whole["reshard_after_forward"] = False
            else:
                named["reshard_after_forward"] = True
        for layer in layers:
            fully_shard(layer, **{**named, **whole})
        return fully_shard(model, **whole)

    def _mesh(self, device):
        """All ranks in a row, or replicas of the groups that shard together."""
        from torch.distributed.device_mesh import init_device_mesh

        size, world = self.configuration.shard_group_size, self.configuration.world_size
        if size == world:
            return init_device_mesh(device, (world,))
        return init_device_mesh(device, (world // size, size), mesh_dim_names=("replicate", "shard"))

    @staticmethod
    def module(model):
        """What wrap() was given: the model without DDP or FSDP around it. fully_shard puts nothing around it."""
        return model if _group() is None else getattr(model, "module", model)

    def optimizer(self, model, kind, groups=None, **named):
        """An optimizer of this kind over the wrapped model's parameters, or over the parameter groups that `groups(model)` returns."""
        parameters = list(groups(model)) if groups else model.parameters()
        if not self.configuration.zero_redundancy_optimizer:
            return kind(parameters, **named)
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(parameters, optimizer_class=kind, **named)

    def steps(self, first, last):
        """Numbers of the steps first to last - 1, until all ranks agree to stop. Checkpoint after each as you like.

        Where they stopped early, SIGTERM changes nothing any more: the checkpoint after the last step is still to be
        saved, and a launcher passes on what its whole process group has received already.
        """
        with self._training(first):
            for step in range(first, last):
                self.next_step = step
                yield step
                if self._stop:
                    break

    def epochs(self, first, last, step=0, last_step=None):
        """Numbers of the epochs first to last - 1, until all ranks agree to stop, or until last_step steps are done in all.

        step: the number of the first step, where a checkpoint says one. batches() numbers on from there.
        """
        with self._training(step):
            for epoch in range(first, last):
                self._last_step = last_step
                yield epoch
                if self._stop or self.next_step == last_step:
                    break

    def batches(self, loader):
        """The loader's batches, each of them one step. Ends early as steps() does."""
        self._in_batches, self._short = True, False
        with self._training(self.next_step):
            for batch in loader:
                if self._stop or self.next_step == self._last_step:
                    break
                if self._short:
                    raise BadConfiguration(f"step {self.next_step - 1} had fewer samples than {self.configuration.samples_per_rank}, and "
                                           "was not the loader's last: give the loader batch_size=run.configuration.samples_per_rank")
                yield batch
        self._in_batches = False

    @contextlib.contextmanager
    def _training(self, first):
        self._depth += 1
        outermost = self._depth == 1
        if outermost:
            self.next_step = first
            before = signal.signal(signal.SIGTERM, self._ask)
            self._client.begin(first, self._phases)
        try:
            yield
        finally:
            self._depth -= 1
            if outermost:
                self._client.close()
                if not (self._asked or self._stop):
                    signal.signal(signal.SIGTERM, before)

    def _ask(self, number, frame):
        self._asked = True

    @_telling_of_memory
    def step(self, model, optimizer, batch, loss_of, clip_norm=None, scaler=None):
        """One optimizer step over this rank's samples. Returns the mean loss over the global batch.

        clip_norm: gradients are clipped to this norm, which is told to Trimtab as it was before.
        scaler: a GradScaler. Autocast belongs into loss_of.
        A step that runs out of memory is told to Trimtab as such; what it raises is raised, and must end the process.
        """
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        step, range_of = self.next_step, self._client.range
        with range_of("step", step):
            total = self._passes(model, optimizer, batch, loss_of, scaler)
            with range_of("optimizer"):
                norm = self._update(model, optimizer, clip_norm, scaler)
            change = self._client.next_plan(step + 1, self._agreement(total, range_of),
                                            functools.partial(self._changes.validate, self.configuration))
        self.next_step, peak = step + 1, self._peak_bytes(total)
        self._client.step(step, wall_ns=time.perf_counter_ns() - wall, cpu_ns=time.process_time_ns() - cpu,
                          loss=self.loss, gradient_norm=norm, peak_bytes=peak)
        before, self.configuration = self.configuration, self._changes.after_step(
            self.configuration, change, step + 1, loss=self.loss, norm=norm, adopted=self._adopted, peak_bytes=peak)
        if self.configuration is not before:
            self._forget_peak(total)
        if self._measures and not self._stop:
            self._measure_again(total.device)
        return self.loss

    def _passes(self, model, optimizer, batch, loss_of, scaler):
        """Forward and backward over all microbatches. Returns the mean loss over this rank's samples."""
        samples = samples_in(batch)
        parts = split_samples(batch, self._microbatch(samples))
        optimizer.zero_grad()
        total = 0.0
        for number, part in enumerate(parts):
            size = samples_in(part)
            last = number + 1 == len(parts)
            with contextlib.nullcontext() if last else _without_sync(model):
                # Ranges of a whole microbatch: what a plan's operators take is not learnt from them.
                with self._client.range("op/microbatch/forward/whole", size):
                    loss = loss_of(model, part) * (size / samples)
                with self._client.range("op/microbatch/backward/whole", size):
                    (scaler.scale(loss) if scaler else loss).backward()
            total += loss.detach()
        return total

    def _microbatch(self, samples):
        """The most samples of a microbatch, for a batch of so many."""
        chosen = self.configuration
        if not chosen.samples_per_microbatch:
            return math.ceil(samples / chosen.accumulation_steps)
        self._short = samples < chosen.samples_per_rank
        if samples > chosen.samples_per_rank or (self._short and not self._in_batches):
            raise BadConfiguration(f"this rank has {samples} samples, {'the plan' if self.planned else 'load()'} gives it {chosen.samples_per_rank}")
        return chosen.samples_per_microbatch

    def _update(self, model, optimizer, clip_norm, scaler):
        """The optimizer's step. Returns the gradients' norm before, over all ranks, where it is asked for and finite."""
        if clip_norm is not None and scaler:
            scaler.unscale_(optimizer)
        norm = None if clip_norm is None else self._clip(model, clip_norm)
        if not scaler:
            optimizer.step()
            return norm
        scaler.step(optimizer)  # Not taken where a gradient is infinite: the scale was too large, which is no plan's fault.
        scaler.update()
        return norm if norm is None or math.isfinite(norm) else None

    @staticmethod
    def _clip(model, norm):
        if hasattr(model, "clip_grad_norm_"):  # FSDP
            return float(model.clip_grad_norm_(norm))
        import torch

        before = torch.nn.utils.clip_grad_norm_(model.parameters(), norm)
        return float(before.full_tensor() if hasattr(before, "full_tensor") else before)  # of fully_shard's parts

    def _agreement(self, total, range_of):
        """The `agree` of next_plan(). Its first round goes with the step's own all-reduce, and is the only one at most steps."""
        first = [functools.partial(self._agree, total, range_of)]
        return lambda offer: first.pop()(offer) if first else self._least(offer, total.device)

    def _agree(self, total, range_of, offer):
        """One all-reduce: the mean loss, whether any rank was asked to stop or offers another plan, whether all have heard that theirs is
        the incumbent, and what each was asked to measure again. Returns the least offer of all ranks."""
        import torch

        asked, offered = float(self._asked or self._client.stop_requested), float(self._client.measuring)
        told = [asked, offered, offered * offered, float(offer != self._usual), float(self._client.runs_incumbent)]
        both = torch.stack([total.float(), *torch.tensor(told, device=total.device)])
        group, ranks = _group(), 1
        if group:
            ranks = group.get_world_size()
            with range_of(f"comm/all_reduce/{ranks}", both.numel() * both.element_size()):
                group.all_reduce(both)
        loss, asked, offers, squares, unusual, adopted = both.tolist()  # On a GPU this waits for it.
        self.loss = loss / ranks
        self._stop = asked > 0
        self._measures = measuring_again.agreed(offers, squares, ranks)
        self._adopted = adopted == ranks
        if unusual:
            self._usual = self._least(offer, total.device)
        return self._usual

    @staticmethod
    def _least(offer, device):
        """The least offer of all ranks."""
        import torch

        group = _group()
        if group is None:
            return offer
        least = torch.tensor(offer, dtype=torch.int64, device=device)
        group.all_reduce(least, op=group.ReduceOp.MIN)
        return int(least)

    def _measure_again(self, device):
        """Between two steps, over the group that the job trains with."""
        import torch

        from .parallel_collectives import once_of

        group, request = _group(), self._client.take_measuring()

        def most(numbers):
            if group is None:
                return numbers
            tensor = torch.tensor(numbers, dtype=torch.float64, device=device)
            group.all_reduce(tensor, op=group.ReduceOp.MAX)
            return tensor.tolist()

        result = measuring_again.run(request, lambda item: once_of(torch, item, device), most)
        self._client.measured(request["number"], self.next_step, result)

    @staticmethod
    def _peak_bytes(total):
        """None: on a CPU the process's peak says nothing of the plan alone."""
        if not total.is_cuda:
            return None
        import torch

        return torch.cuda.max_memory_allocated(total.device)

    @staticmethod
    def _forget_peak(total):
        """What the next plan takes is its own."""
        if total.is_cuda:
            import torch

            torch.cuda.reset_peak_memory_stats(total.device)

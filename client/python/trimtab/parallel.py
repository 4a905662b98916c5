"""PyTorch's own data parallelism as a plan says it, in five lines of a training script:

    import trimtab.parallel
    run = trimtab.parallel.load()                                    # what `trimtab plan export --to ddp` wrote
    model = run.wrap(model, model.layers)                            # checkpointing, then DDP or FSDP
    optimizer = run.optimizer(model, torch.optim.AdamW, lr=1e-3)     # ZeroRedundancyOptimizer where the plan says so
    for step in run.steps(first, last):                              # tells Trimtab of each; ends early when asked to
        run.step(model, optimizer, batch, loss_of)                   # microbatches, no_sync(), one optimizer step

`batch` is this rank's share of the global batch: a tensor, or tuples, lists and dictionaries of tensors, samples first;
`loss_of(model, part)` returns the mean loss of a part of it. The process group is the script's own affair and exists
before wrap(). PyTorch is loaded when it is needed, not by importing this.

Samples, their order, the mean over them and the optimizer's arithmetic stay the same: of a model in which each sample is computed
by itself, the knobs change the order of sums alone. With dropout the masks are drawn for each microbatch: other ones with another
plan (class = "statistical" in job.toml says that this may be). With batch norm, or a loss that is no mean over samples, another
microbatch learns something else: set microbatch = false in job.toml, [knobs] (docs/targets.md).
"""
import contextlib
import dataclasses
import functools
import json
import os
import signal
import time

from .client import connect
from .out_of_memory import is_out_of_memory

SCHEMA = "trimtab.parallel/1"


class BadConfiguration(Exception):
    """The file cannot be read, or does not fit this job."""


@dataclasses.dataclass(frozen=True)
class Configuration:
    kind: str  # "ddp" or "fsdp"
    world_size: int
    global_batch: int
    samples_per_microbatch: int
    accumulation_steps: int
    layers: int
    checkpoint_layers: tuple
    bucket_cap_mb: float = 0.0  # 0: PyTorch's own
    zero_redundancy_optimizer: bool = False
    sharding_strategy: str = ""
    shard_group_size: int = 1

    @property
    def samples_per_rank(self):
        return self.samples_per_microbatch * self.accumulation_steps


def parse(text, source):
    """The Configuration that the text says; BadConfiguration names what is wrong with it."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise BadConfiguration(f"{source}: is no JSON: {error}") from error
    if not isinstance(given, dict) or given.get("schema") != SCHEMA:
        raise BadConfiguration(f"{source}: schema: needs {SCHEMA!r}: export it with trimtab plan export --to ddp|fsdp")
    given = {name: value for name, value in given.items() if name != "schema"}
    known = {field.name for field in dataclasses.fields(Configuration)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise BadConfiguration(f"{source}: {unknown[0]}: is not known to this release; a plan's knob must not be lost")
    given["checkpoint_layers"] = tuple(given.get("checkpoint_layers", ()))
    try:
        made = Configuration(**given)
    except TypeError as error:
        raise BadConfiguration(f"{source}: {error}") from error
    if made.kind not in ("ddp", "fsdp"):
        raise BadConfiguration(f"{source}: kind: needs ddp or fsdp, found {made.kind!r}")
    if made.samples_per_rank * made.world_size != made.global_batch:
        raise BadConfiguration(
            f"{source}: {made.samples_per_microbatch} samples in {made.accumulation_steps} microbatches on "
            f"{made.world_size} ranks are not the global batch of {made.global_batch}")
    return made


def load(path=None):
    """The Run of the file at `path`, or at TRIMTAB_TARGET_CONFIG."""
    path = path or os.environ.get("TRIMTAB_TARGET_CONFIG", "")
    if not path:
        raise BadConfiguration("TRIMTAB_TARGET_CONFIG is not set: name the file of trimtab plan export --to ddp|fsdp")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise BadConfiguration(f"cannot read {path}: {error.strerror}") from error
    return Run(parse(text, path))


def split_samples(batch, parts):
    """The batch in `parts` equal parts, along the samples."""
    if isinstance(batch, dict):
        split = {name: split_samples(value, parts) for name, value in batch.items()}
        return [{name: values[i] for name, values in split.items()} for i in range(parts)]
    if isinstance(batch, (tuple, list)):
        split = [split_samples(value, parts) for value in batch]
        return [type(batch)(values[i] for values in split) for i in range(parts)]
    if batch.shape[0] % parts:
        raise BadConfiguration(f"a batch of {batch.shape[0]} samples cannot be cut in {parts} equal microbatches")
    return list(batch.split(batch.shape[0] // parts))


def _first_tensor(batch):
    if isinstance(batch, dict):
        batch = list(batch.values())
    return _first_tensor(batch[0]) if isinstance(batch, (tuple, list)) else batch


def _telling_of_memory(method):
    """What runs out of memory here ends this rank: plans that need as much need not be tried."""

    @functools.wraps(method)
    def told(self, *arguments, **named):
        try:
            return method(self, *arguments, **named)
        except Exception as error:
            if is_out_of_memory(error):
                self._client = self._client or connect()
                self._client.out_of_memory(error)
            raise

    return told


class Run:
    """A training run under one configuration. Main thread only."""

    def __init__(self, configuration, client=None):
        self.configuration = configuration
        self.loss = None  # of the last step: the mean over the global batch
        self._client = client
        self._phases = {}
        self._asked = False
        self._stop = False

    @property
    def stopped(self):
        """All ranks agreed to end after the last step: by a signal, or because Trimtab asked."""
        return self._stop

    @_telling_of_memory
    def wrap(self, model, layers=()):
        """The model under checkpointing and data parallelism; `layers` are its equal blocks, in order."""
        import torch.distributed as distributed
        from torch.utils.checkpoint import checkpoint

        chosen = self.configuration
        if distributed.get_world_size() != chosen.world_size:
            raise BadConfiguration(f"the plan is for {chosen.world_size} ranks, but {distributed.get_world_size()} run")
        if chosen.checkpoint_layers and len(layers) != chosen.layers:
            raise BadConfiguration(f"the plan counts {chosen.layers} layers, but wrap() was given {len(layers)}")
        for index in chosen.checkpoint_layers:  # Parameters and their names stay as they are.
            layers[index].forward = functools.partial(checkpoint, layers[index].forward, use_reentrant=False)
        begin = time.perf_counter_ns()
        wrapped = self._ddp(model) if chosen.kind == "ddp" else self._fsdp(model, layers)
        # Their first collectives make the communicators.
        self._phases["groups"] = time.perf_counter_ns() - begin
        return wrapped

    def _ddp(self, model):
        from torch.nn.parallel import DistributedDataParallel

        buckets = {"bucket_cap_mb": self.configuration.bucket_cap_mb} if self.configuration.bucket_cap_mb else {}
        return DistributedDataParallel(model, **buckets)

    def _fsdp(self, model, layers):
        from torch.distributed import fsdp

        strategy = getattr(fsdp.ShardingStrategy, self.configuration.sharding_strategy, None)
        if strategy is None:
            raise BadConfiguration(f"this PyTorch has no sharding strategy {self.configuration.sharding_strategy}")
        named = {"sharding_strategy": strategy, **self._shard_groups()}
        blocks = {id(layer) for layer in layers}
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

    def optimizer(self, model, kind, **named):
        """An optimizer of this kind over the wrapped model's parameters."""
        if not self.configuration.zero_redundancy_optimizer:
            return kind(model.parameters(), **named)
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(model.parameters(), optimizer_class=kind, **named)

    def steps(self, first, last):
        """Numbers of the steps first to last - 1, until all ranks agree to stop. Checkpoint after each as you like.

        Where they stopped early, SIGTERM changes nothing any more: the checkpoint after the last step is still to be
        saved, and a launcher passes on what its whole process group has received already.
        """
        before = signal.signal(signal.SIGTERM, self._ask)
        if self._client is None:
            self._client = connect(first, self._phases)
        try:
            for step in range(first, last):
                self._step = step
                yield step
                if self._stop:
                    break
        finally:
            self._client.close()
            if not (self._asked or self._stop):
                signal.signal(signal.SIGTERM, before)

    def _ask(self, number, frame):
        self._asked = True

    @_telling_of_memory
    def step(self, model, optimizer, batch, loss_of, clip_norm=None):
        """One optimizer step over this rank's samples. Returns the mean loss over the global batch.

        clip_norm: gradients are clipped to this norm, which is told to Trimtab as it was before.
        A step that runs out of memory is told to Trimtab as such; what it raises is raised, and must end the process.
        """
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        chosen = self.configuration
        samples = _first_tensor(batch).shape[0]
        if samples != chosen.samples_per_rank:
            raise BadConfiguration(f"this rank has {samples} samples, the plan gives it {chosen.samples_per_rank}")
        parts = split_samples(batch, chosen.accumulation_steps)
        optimizer.zero_grad()
        total = 0.0
        for number, part in enumerate(parts):
            last = number + 1 == len(parts)
            with contextlib.nullcontext() if last else model.no_sync():
                loss = loss_of(model, part) / len(parts)
                loss.backward()
            total += loss.detach()
        norm = None if clip_norm is None else self._clip(model, clip_norm)
        optimizer.step()
        self._agree(total)
        self._client.step(self._step, wall_ns=time.perf_counter_ns() - wall, cpu_ns=time.process_time_ns() - cpu,
                          loss=self.loss, gradient_norm=norm, peak_bytes=self._peak_bytes(total))
        return self.loss

    def _clip(self, model, norm):
        """The gradients' norm before, over all ranks."""
        if self.configuration.kind == "fsdp":
            return float(model.clip_grad_norm_(norm))
        import torch

        return float(torch.nn.utils.clip_grad_norm_(model.parameters(), norm))

    def _agree(self, total):
        """One all-reduce: the mean loss, and whether any rank was asked to stop."""
        import torch
        import torch.distributed as distributed

        asked = float(self._asked or self._client.stop_requested)
        both = torch.stack([total.float(), torch.tensor(asked, device=total.device)])
        distributed.all_reduce(both)
        self.loss = both[0].item() / self.configuration.world_size
        self._stop = both[1].item() > 0

    @staticmethod
    def _peak_bytes(total):
        """None: on a CPU the process's peak says nothing of the plan alone."""
        if not total.is_cuda:
            return None
        import torch

        return torch.cuda.max_memory_allocated(total.device)

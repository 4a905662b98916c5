"""What a plan says of PyTorch's own data parallelism (`trimtab plan export --to ddp|fsdp|fsdp2`), or what a script wants without one.

Pure but for reading the file; PyTorch is not needed.
"""
import collections.abc
import dataclasses
import json

SCHEMA = "trimtab.parallel/1"


KINDS = ("ddp", "fsdp", "fsdp2")  # DistributedDataParallel, FullyShardedDataParallel, fully_shard


class BadConfiguration(Exception):
    """The file cannot be read, or does not fit this job."""


@dataclasses.dataclass(frozen=True)
class Configuration:
    kind: str  # one of KINDS
    world_size: int
    global_batch: int
    samples_per_microbatch: int
    accumulation_steps: int
    layers: int
    checkpoint_layers: tuple = ()
    bucket_cap_mb: float = 0.0  # 0: PyTorch's own
    zero_redundancy_optimizer: bool = False
    sharding_strategy: str = ""
    shard_group_size: int = 1
    reshard_after_forward: bool = True

    @property
    def samples_per_rank(self):
        if not self.samples_per_microbatch:
            raise BadConfiguration("nothing says how many samples a rank takes in a step: load(batch_size=...) says it where no plan does")
        return self.samples_per_microbatch * self.accumulation_steps


def json_of(text, source):
    """The document that the text is; BadConfiguration where it is no JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadConfiguration(f"{source}: is no JSON: {error}") from error


def fields_of(kind, given, source, schema, targets):
    """What the document says as the dataclass `kind`, lists as tuples; BadConfiguration names what is wrong with it."""
    if not isinstance(given, dict) or given.get("schema") != schema:
        raise BadConfiguration(f"{source}: schema: needs {schema!r}: export it with trimtab plan export --to {targets}")
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items() if name != "schema"}
    known = {field.name for field in dataclasses.fields(kind)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise BadConfiguration(f"{source}: {unknown[0]}: is not known to this release; a plan's knob must not be lost")
    try:
        return kind(**given)
    except TypeError as error:
        raise BadConfiguration(f"{source}: {error}") from error


def of_document(given, source):
    """The Configuration that the document says, as json.loads() has it."""
    made = fields_of(Configuration, given, source, SCHEMA, "|".join(KINDS))
    if made.kind not in KINDS:
        raise BadConfiguration(f"{source}: kind: needs {', '.join(KINDS[:-1])} or {KINDS[-1]}, found {made.kind!r}")
    if made.samples_per_microbatch * made.accumulation_steps * made.world_size != made.global_batch:
        raise BadConfiguration(
            f"{source}: {made.samples_per_microbatch} samples in {made.accumulation_steps} microbatches on "
            f"{made.world_size} ranks are not the global batch of {made.global_batch}")
    return made


def parse(text, source):
    """The Configuration that the text says; BadConfiguration names what is wrong with it."""
    return of_document(json_of(text, source), source)


def read(path, parsed=parse):
    """The Configuration of the file at `path`."""
    try:
        with open(path, encoding="utf-8") as file:
            return parsed(file.read(), path)
    except OSError as error:
        raise BadConfiguration(f"cannot read {path}: {error.strerror}") from error


def plain(kind, batch_size, accumulation_steps, world_size):
    """Of a script that runs without a plan, on so many ranks. batch_size: samples of a microbatch of one rank; None: what it is given."""
    if kind not in KINDS:
        raise BadConfiguration(f"kind: needs {', '.join(KINDS[:-1])} or {KINDS[-1]}, found {kind!r}")
    for name, value in (("batch_size", 1 if batch_size is None else batch_size), ("gradient_accumulation_steps", accumulation_steps)):
        if int(value) != value or value < 1:
            raise BadConfiguration(f"{name}: needs a whole number from 1, found {value!r}")
    samples = batch_size or 0
    return Configuration(kind=kind, world_size=world_size, global_batch=samples * accumulation_steps * world_size,
                         samples_per_microbatch=samples, accumulation_steps=accumulation_steps, layers=0)


def samples_in(batch):
    """How many samples the first tensor has."""
    if isinstance(batch, collections.abc.Mapping):
        batch = list(batch.values())
    return samples_in(batch[0]) if isinstance(batch, (tuple, list)) else batch.shape[0]


def split_samples(batch, size):
    """The batch in parts of `size` samples; the last has what is left."""
    if isinstance(batch, collections.abc.Mapping):
        split = {name: split_samples(value, size) for name, value in batch.items()}
        return [dict(zip(split, values)) for values in zip(*split.values())]
    if isinstance(batch, (tuple, list)):
        parts = zip(*(split_samples(value, size) for value in batch))
        return [type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values) for values in parts]
    return list(batch.split(size))

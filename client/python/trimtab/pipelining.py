"""A pipeline of torch.distributed.pipelining as a plan says it, in six lines of a training script:

    import trimtab.pipelining
    run = trimtab.pipelining.load(layers=len(model.layers), n_microbatches=8, batch_size=32)
    mesh = run.mesh("cuda")                                   # dimensions "pp" and "dp", which of one pipeline is 1
    stages = [PipelineStage(build(part), part.index, run.num_stages, device, group=mesh.get_group("pp"))
              for part in run.parts(model.layers)]            # this rank's, with checkpointing
    schedule = run.schedule(stages, loss_fn=loss)             # ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B
    ...
    run.reduce(stages)                                        # between schedule.step() and optimizer.step()

`build(part)` is the script's own: a module of `part.layers`, before them the embedding where `part.is_first`, behind them the head where
`part.is_last`. Each schedule.step() takes run.configuration.batch_size samples: of a plan with several pipelines (mesh.size(1) > 1) this one's
share of the global batch. These begin with the same parameters, and their gradients are averaged by run.reduce(). Training is the script's
own, and `trimtab run` or the hooks of a job see its steps.

A plan is the file at `path`, or at TRIMTAB_TARGET_CONFIG, as `trimtab plan export --to pipelining` writes it. Without one the same lines
are what load() is given: all ranks in one pipeline of equal stages. PyTorch (2.6 or later) is loaded when it is needed.
"""
import dataclasses
import json
import os

from .parallel_changes import Wrapped
from .parallel_plan import BadConfiguration, fields_of, json_of, read

__all__ = ["BadConfiguration", "Configuration", "Part", "Run", "load", "parse"]

SCHEMA = "trimtab.pipelining/1"
SCHEDULES = ("GPipe", "1F1B", "Interleaved1F1B")  # as get_schedule_class() calls them


@dataclasses.dataclass(frozen=True)
class Configuration:
    schedule: str  # one of SCHEDULES
    n_microbatches: int
    world_size: int
    group_size: int  # ranks of one pipeline
    global_batch: int
    batch_size: int  # samples that one step() of a schedule takes
    layers: int
    split_layers: tuple = ()  # the first layer of each stage but the first
    checkpoint_layers: tuple = ()


@dataclasses.dataclass(frozen=True)
class Part:
    """A stage of this rank."""

    index: int
    first: int  # number of its first layer
    layers: tuple
    is_first: bool
    is_last: bool


def parse(text, source):
    """The Configuration that the text says; BadConfiguration names what is wrong with it."""
    return _checked(fields_of(Configuration, json_of(text, source), source, SCHEMA, "pipelining"), source)


def _checked(made, source):
    """What PyTorch itself would refuse on some ranks alone, or not at all."""
    def need(holds, what):
        if not holds:
            raise BadConfiguration(f"{source}: {what}")

    need(made.schedule in SCHEDULES, f"schedule: needs {', '.join(SCHEDULES)}, found {made.schedule!r}")
    need(made.group_size > 0 and made.world_size % made.group_size == 0, f"group_size: must divide {made.world_size} ranks, found {made.group_size}")
    pipelines = made.world_size // made.group_size
    need(made.batch_size * pipelines == made.global_batch,
         f"{made.batch_size} samples of each of {pipelines} pipelines are not the global batch of {made.global_batch}")
    need(made.n_microbatches > 0 and made.batch_size % made.n_microbatches == 0,
         f"n_microbatches: must divide the {made.batch_size} samples of a step, found {made.n_microbatches}")
    bounds = (0, *made.split_layers, made.layers)
    need(all(low < high for low, high in zip(bounds, bounds[1:])), f"split_layers: must rise between 0 and {made.layers}, found {made.split_layers}")
    stages, several = len(bounds) - 1, made.schedule == "Interleaved1F1B"
    need(stages % made.group_size == 0 and (stages > made.group_size) == several,
         f"{made.schedule} needs {'several stages' if several else 'one stage'} on each of {made.group_size} ranks, found {stages} in all")
    return made


def load(path=None, *, layers, n_microbatches, batch_size, schedule="1F1B", stages_per_rank=1):
    """The Run of the file at `path`, or at TRIMTAB_TARGET_CONFIG. Without either the Run of what the other arguments say, which a plan takes
    the place of, but for the number of layers: batch_size samples of a step in n_microbatches, on as many equal stages on each rank.
    """
    path = path or os.environ.get("TRIMTAB_TARGET_CONFIG", "")
    if path:
        made = read(path, parse)
        if made.layers != layers:
            raise BadConfiguration(f"{path}: the plan counts {made.layers} layers, but load() was given {layers}")
        return Run(made)
    ranks = int(os.environ.get("WORLD_SIZE") or 1)
    stages = ranks * stages_per_rank
    splits = tuple(-(-layers * stage // stages) for stage in range(1, stages))
    return Run(_checked(Configuration(schedule=schedule, n_microbatches=n_microbatches, world_size=ranks, group_size=ranks, global_batch=batch_size,
                                      batch_size=batch_size, layers=layers, split_layers=splits), "load()"))


class Run:
    """A pipeline under one configuration. Main thread only."""

    def __init__(self, configuration):
        self.configuration = configuration
        self._mesh = None

    @property
    def num_stages(self):
        return len(self.configuration.split_layers) + 1

    def mesh(self, device_type):
        """The DeviceMesh of pipelines ("pp") and replicas ("dp"). All ranks call it, once init_process_group() is done."""
        import torch.distributed as distributed
        from torch.distributed.device_mesh import init_device_mesh

        chosen, ranks = self.configuration, distributed.get_world_size()
        if ranks != chosen.world_size:
            raise BadConfiguration(f"the plan is for {chosen.world_size} ranks, but {ranks} run")
        if self._mesh is None:
            self._mesh = init_device_mesh(device_type, (chosen.group_size, ranks // chosen.group_size), mesh_dim_names=("pp", "dp"))
        return self._mesh

    def parts(self, layers):
        """The stages of this rank, in order. layers: all of the model's, in order; those that the plan recomputes get checkpointing.
        REQUIRES: mesh()."""
        chosen = self.configuration
        if len(layers) != chosen.layers:
            raise BadConfiguration(f"the plan counts {chosen.layers} layers, but parts() was given {len(layers)}")
        bounds = (0, *chosen.split_layers, chosen.layers)
        parts = []
        for index in range(self._mesh.get_local_rank("pp"), self.num_stages, chosen.group_size):
            numbers = range(bounds[index], bounds[index + 1])
            Wrapped(layers).recompute([number for number in numbers if number in chosen.checkpoint_layers])
            parts.append(Part(index, numbers[0], tuple(layers[number] for number in numbers), index == 0, index + 1 == self.num_stages))
        return parts

    def schedule(self, stages, **named):
        """The plan's schedule over this rank's stages. named: what its class takes beside them and n_microbatches, such as loss_fn."""
        from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

        kind = get_schedule_class(self.configuration.schedule)
        over = stages[0] if issubclass(kind, PipelineScheduleSingle) else stages
        return kind(over, self.configuration.n_microbatches, **named)

    def reduce(self, stages):
        """Averages gradients over the pipelines. In DistributedDataParallel's stead, which ScheduleInterleaved1F1B does not run (PyTorch 2.13)."""
        import torch.distributed as distributed

        count = self._mesh.size(1)
        if count == 1:
            return
        gradients = [parameter.grad for stage in stages for parameter in stage.submod.parameters() if parameter.grad is not None]
        works = [distributed.all_reduce(gradient, group=self._mesh.get_group("dp"), async_op=True) for gradient in gradients]
        for gradient, work in zip(gradients, works):
            work.wait()
            gradient /= count

    def split_spec(self, name):
        """What pipeline() of PyTorch takes to cut a whole model. name: a layer's, with {} for its number: "layers.{}"."""
        from torch.distributed.pipelining import SplitPoint

        return {name.format(layer): SplitPoint.BEGINNING for layer in self.configuration.split_layers}

    def save(self, path):
        """Writes what runs, as `trimtab plan import` reads it. One rank calls it."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schema": SCHEMA, **dataclasses.asdict(self.configuration)}, file, indent=2)

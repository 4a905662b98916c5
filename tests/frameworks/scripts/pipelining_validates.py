"""What PyTorch's own stages and schedules say of pipelining.json: each line of standard input is {"file": {...}, "expected": {...}}; each line of
standard output is "" or what it objects, or where it makes anything else of the file. Its process group sends nothing, so that one process is
each rank in turn."""
import json
import sys

import torch
import torch.distributed as distributed
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.microbatch import split_args_kwargs_into_chunks
from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class
from torch.testing._internal.distributed.fake_pg import FakeStore

CPU = torch.device("cpu")


def stages_of(file, rank):
    """The stages that a rank has, by their numbers, under the schedule that is made of them."""
    distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=file["world_size"])
    try:
        size, count = file["group_size"], len(file["split_layers"]) + 1
        group = init_device_mesh("cpu", (size, file["world_size"] // size), mesh_dim_names=("pp", "dp")).get_group("pp")
        place = distributed.get_rank(group)
        stages = [PipelineStage(nn.Linear(1, 1), index, count, CPU, group=group) for index in range(place, count, size)]
        kind = get_schedule_class(file["schedule"])
        single = issubclass(kind, PipelineScheduleSingle)
        assert len(stages) == 1 or not single, f"{kind.__name__} takes one stage"
        schedule = kind(stages[0] if single else stages, file["n_microbatches"], loss_fn=nn.functional.mse_loss)
        return type(schedule).__name__, [stage.stage_index for stage in stages]
    finally:
        distributed.destroy_process_group()


def said(file):
    parts, _ = split_args_kwargs_into_chunks((torch.zeros(file["batch_size"], 1),), {}, file["n_microbatches"])
    replicas = file["world_size"] // file["group_size"]
    made = [stages_of(file, place * replicas + replicas - 1) for place in range(file["group_size"])]
    bounds = [0, *file["split_layers"], file["layers"]]
    return {"schedules": sorted({name for name, _ in made}), "stages": [stages for _, stages in made], "replicas": replicas,
            "samples": [len(part) for (part,) in parts], "layers": [high - low for low, high in zip(bounds, bounds[1:])]}


def objection(case):
    try:
        answer = said(case["file"])
    except (AssertionError, ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    other = {name: value for name, value in answer.items() if case["expected"][name] != value}
    return f"made {other}, of a plan that is {case['expected']}" if other else ""


for line in sys.stdin:
    print(json.dumps(objection(json.loads(line))), flush=True)

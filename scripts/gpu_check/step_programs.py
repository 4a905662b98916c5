"""The programs whose steps are timed one by one: an eager Llama of transformers and what becomes of it by torch.compile and
by a CUDA graph, Megatron-LM's own script, NCCL's loops. Times are (begin, end) in nanoseconds of real time."""
import contextlib
import os
import pathlib
import runpy
import sys
import time

import torch

from plan_programs import join

LLAMA = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 16, "num_attention_heads": 16, "vocab_size": 8192,
         "max_position_embeddings": 256}
BATCH = 2
LAUNCHES = 2000


def llama(settings):
    """Steps of the Llama, each launched so: "eager", "compiled" (layer by layer), or as one "graph"."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    device, way = torch.device(settings.get("device", "cuda")), settings["way"]
    config = LlamaConfig(**{**LLAMA, **settings.get("model", {})}, use_cache=False)
    model = LlamaForCausalLM(config).to(device)
    if way == "compiled":
        for layer in model.model.layers:
            layer.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=way == "graph")
    tokens = torch.randint(config.vocab_size, (BATCH, config.max_position_embeddings), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()

    work = captured(step) if way == "graph" else step
    return {"steps": timed(work, device, settings["warm_steps"], settings["seconds"])}


def captured(step):
    """All of a step as one CUDA graph: what replays it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def told(device):
    """A range "step", by which collectors know steps."""
    return torch.cuda.nvtx.range("step") if device.type == "cuda" else contextlib.nullcontext()


def finished(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def timed(work, device, warm_steps, seconds):
    """Does the work for so long, after some times that do not count."""
    taken, until = [], None
    while until is None or time.time_ns() < until:
        begin = time.time_ns()
        with told(device):
            work()
            finished(device)
        taken.append((begin, time.time_ns()))
        if until is None and len(taken) > warm_steps:
            until, taken = time.time_ns() + seconds * 1e9, []
    return taken


class Enough(Exception):
    """Megatron-LM has trained for as long as was asked."""


def megatron(settings):
    """Megatron-LM's script as it is, until so many seconds of steps have passed. `source`: its repository."""
    sys.path.insert(0, settings["source"])
    sys.argv = ["pretrain_gpt.py", *settings["arguments"]]
    from megatron.training import training

    device, inner, taken = torch.device(settings.get("device", "cuda")), training.train_step, []

    def train_step(*arguments, **named):
        begin = time.time_ns()
        with told(device):
            result = inner(*arguments, **named)
            finished(device)
        taken.append((begin, time.time_ns()))
        if len(taken) > settings["warm_steps"] and taken[-1][1] > taken[settings["warm_steps"]][0] + settings["seconds"] * 1e9:
            raise Enough
        return result

    training.train_step = train_step
    with contextlib.suppress(Enough):
        runpy.run_path(str(pathlib.Path(settings["source"]) / "pretrain_gpt.py"), run_name="__main__")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return {"steps": taken[settings["warm_steps"]:]}


def loops(settings):
    """All-reduces of each size in groups, one after the other, for so many seconds."""
    device = join(settings)
    tensors = {size: torch.zeros(size // 4, device=device) for size in settings["sizes"]}
    groups, until = {size: [] for size in tensors}, time.time_ns() + settings["seconds"] * 1e9
    goes_on = torch.ones(1, device=device)
    while goes_on.item():
        for size, tensor in tensors.items():
            begin = time.time_ns()
            for _ in range(settings["count"]):
                torch.distributed.all_reduce(tensor)
            finished(device)
            groups[size].append((begin, time.time_ns()))
        goes_on.fill_(float(time.time_ns() < until))
        torch.distributed.all_reduce(goes_on, op=torch.distributed.ReduceOp.MIN)  # Ranks end together.
    torch.distributed.destroy_process_group()
    return {"groups": groups}


def touched(settings):
    """Kernels whose number is known, inside ranges of the client's: what two profilers may count."""
    sys.path.insert(0, settings["client"])
    from trimtab.ranges import Ranges

    ranges, tensor = Ranges(os.environ), torch.zeros(1024, device=settings.get("device", "cuda"))
    finished(tensor.device)
    for number in range(LAUNCHES // 100):
        with ranges.range("step", number):
            for _ in range(100):
                tensor.add_(1)
            finished(tensor.device)
    time.sleep(settings.get("rest_s", 1.5))  # A look a second: what is there is heard of.
    return {"launches": LAUNCHES, "right": bool((tensor == LAUNCHES).all())}

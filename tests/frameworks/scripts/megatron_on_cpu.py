"""Runs a script of Megatron-LM where there is no GPU: megatron_on_cpu.py SCRIPT ARGUMENT... Its training is its own. What it asks of CUDA is
done by the CPU, or by nothing; Triton's kernels, which it loads and does not call, are absent."""
import contextlib
import dataclasses
import os
import sys
import time
import types
import typing

import torch
import typing_extensions
from torch.overrides import TorchFunctionMode

CPU = "cpu"


class Absent(types.ModuleType):
    """A module of which nothing is called: each name is a decorator that leaves a function as it is."""
    __path__ = []
    __version__ = "3.0.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *given, **named: given[0] if len(given) == 1 and callable(given[0]) and not named else lambda function: function


class Event:
    cuda_stream = 0

    def __init__(self, *_, **__):
        pass

    def nothing(self, *_):
        pass

    record = wait = synchronize = wait_stream = wait_event = nothing

    def query(self):
        return True

    def elapsed_time(self, _):
        return 0.0

    def record_event(self, *_):
        return self


def on_cpu(value):
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device(CPU)
    return CPU if isinstance(value, str) and value.startswith("cuda") else value


class OnCpu(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        args = tuple(on_cpu(value) if isinstance(value, (str, torch.device)) else value for value in args)
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.type and len(args) == 1 and not kwargs:
            return func(*args).replace("torch.", "torch.cuda.")
        return func(*args, **kwargs)


def as_list(value):
    return value.tolist() if torch.is_tensor(value) else value


def always(value):
    return lambda *_, **__: value


def replace_cuda():
    device = types.SimpleNamespace(name="none", total_memory=1 << 34, major=8, minor=0, multi_processor_count=1)
    answers = {"is_available": True, "is_initialized": False, "device_count": 1, "current_device": CPU, "get_device_capability": (8, 0),
               "get_device_properties": device, "get_device_name": "none", "mem_get_info": (1 << 33, 1 << 34), "memory_stats": {},
               "is_current_stream_capturing": False, "current_stream": Event(), "default_stream": Event()}
    numbers = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
    nothings = ("synchronize", "set_device", "empty_cache", "reset_peak_memory_stats", "manual_seed", "manual_seed_all", "init", "ipc_collect")
    for name, value in {**answers, **dict.fromkeys(numbers, 0), **dict.fromkeys(nothings)}.items():
        setattr(torch.cuda, name, always(value))
    torch.cuda.Event = torch.cuda.Stream = Event
    torch.cuda.stream = torch.cuda.device = always(contextlib.nullcontext())
    for module in (torch.cuda, torch.cuda.random):
        module.get_rng_state = lambda *_, **__: torch.get_rng_state()
        module.set_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    torch.cuda.default_generators = (torch.default_generator,)
    torch.accelerator.is_available = always(False)
    torch.accelerator.current_device_index = always(0)
    torch.nn.Module.cuda = lambda self, *_: self
    torch.Tensor.record_stream = always(None)
    mesh, exchange = torch.distributed.DeviceMesh.from_group, torch.distributed.all_to_all_single
    torch.distributed.DeviceMesh.from_group = staticmethod(lambda group, device_type, *given, **named: mesh(group, on_cpu(device_type), *given, **named))

    def all_to_all_single(output, given, *sizes, **named):
        """Sizes would have been copied from the GPU into arrays."""
        return exchange(output, given, *map(as_list, sizes), **{name: as_list(value) for name, value in named.items()})

    torch.distributed.all_to_all_single = all_to_all_single


def prepare():
    """From here on Megatron-LM can be imported."""
    import torch._dynamo.backends.debugging
    import torch._inductor.output_code  # noqa: F401  It asks for Triton as it is imported, and takes no for an answer.
    torch.compile = lambda function=None, **_: function or (lambda inner: inner)
    typing.override = typing_extensions.override  # Python 3.12's
    sys.modules["triton"], sys.modules["triton.language"] = Absent("triton"), Absent("triton.language")
    sys.modules["triton"].language = sys.modules["triton.language"]
    replace_cuda()


def gather_context():
    """Attention over ranks that share a sequence is Transformer Engine's, which needs CUDA. Here each gathers the others' keys and values."""
    from megatron.core.tensor_parallel import gather_from_sequence_parallel_region
    from megatron.core.transformer.dot_product_attention import DotProductAttention

    init, forward = DotProductAttention.__init__, DotProductAttention.forward

    def __init__(self, config, *given, **named):
        self.ranks = config.context_parallel_size
        init(self, dataclasses.replace(config, context_parallel_size=1), *given, **named)

    def whole(self, part):
        """Of 2 n pieces of a sequence rank r has the r-th and the r-th from the end."""
        pieces = gather_from_sequence_parallel_region(part, group=self.pg_collection.cp).chunk(2 * self.ranks)
        return torch.cat(pieces[::2] + pieces[::-2])

    def gathering(self, query, key, value, *given, **named):
        return forward(self, query, whole(self, key), whole(self, value), *given, **named)

    DotProductAttention.__init__, DotProductAttention.forward = __init__, gathering


def main():
    prepare()
    del sys.argv[0]
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    if "--context-parallel-size" in sys.argv:
        gather_context()
    # In this module: what starts a process of its own (a writer of checkpoints) makes it import this one.
    with open(sys.argv[0], encoding="utf-8") as script, OnCpu():
        exec(compile(script.read(), sys.argv[0], "exec"), globals())
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    time.sleep(0.2)  # A thread of Gloo that frees a tensor as Python ends aborts the process.


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__":  # A process that writes checkpoints.
    prepare()

"""torchtitan's own training program on CPUs: python3 torchtitan_on_cpu.py --module llama3 --config llama3_debugmodel ... (its arguments).

Its code is unchanged. torch.cpu answers what it asks a GPU's module. FlexAttention has no backward pass on CPUs, and Gloo cannot scale as it
adds: PyTorch's own attention stands in, and FSDP divides by itself. PyTorch 2.13 lacks `set_timeout`, which torchtitan 0.3 calls once.
"""
import os
import runpy
import sys
import types

import torch
import torch._utils
import torch.cpu
import torch.distributed
from torch.distributed.fsdp._fully_shard import _fsdp_collectives as collectives


def attention(query, key, value, *, scale, enable_gqa, **_):
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale, enable_gqa=enable_gqa), None


def without_gpus():
    torch._utils._get_available_device_type = lambda: "cpu"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name, function in {"get_device_name": lambda *_: "CPU", "current_device": lambda: 0,
                           "device_count": lambda: int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
                           "get_device_properties": lambda *_: types.SimpleNamespace(total_memory=memory, name="CPU"),
                           "reset_peak_memory_stats": lambda *_: None, "empty_cache": lambda: None, "memory_stats": lambda *_: {},
                           "set_device": lambda *_: None}.items():
        setattr(torch.cpu, name, function)
    if not hasattr(torch.distributed, "set_timeout"):
        torch.distributed.set_timeout = lambda *_: None
    factors = collectives._get_gradient_divide_factors
    collectives._get_gradient_divide_factors = lambda *given, **named: factors(*given[:5], **{**named, "force_sum_reduction_for_comms": True})


without_gpus()
from torchtitan.models.common.attention import FlexAttention  # noqa: E402  It asks for the device as it is imported.

FlexAttention._compiled_flex_attn = attention
sys.argv[0] = "torchtitan.train"
runpy.run_module("torchtitan.train", run_name="__main__", alter_sys=True)

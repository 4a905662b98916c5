"""Runs a script that asks for GPUs on CPUs: python3 without_gpus.py SCRIPT ARGUMENT... The script is unchanged. torch.accelerator says that
there are two devices, which are the CPU, and DistributedDataParallel is given no device's number."""
import os
import runpy
import sys

import torch
import torch.nn.parallel

CPU = torch.device("cpu")


def on_cpu(given):
    """tensor.to(0) and module.to(0) mean the accelerator of that number."""
    def moved(self, *places, **named):
        return self if places and isinstance(places[0], int) else given(self, *places, **named)
    return moved


class OnCpu(torch.nn.parallel.DistributedDataParallel):
    def __init__(self, module, device_ids=None, **named):
        super().__init__(module, **named)


def main():
    torch.accelerator.is_available = lambda *_: True
    torch.accelerator.device_count = lambda: 2
    # PyTorch itself asks whether it is available, and scripts do not.
    torch.accelerator.current_accelerator = lambda check_available=False: None if check_available else CPU
    torch.accelerator.set_device_index = lambda *_: None
    torch.Tensor.pin_memory = lambda self, *_: self
    torch.nn.Module.to = on_cpu(torch.nn.Module.to)
    torch.Tensor.to = on_cpu(torch.Tensor.to)
    torch.nn.parallel.DistributedDataParallel = OnCpu
    del sys.argv[0]
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()

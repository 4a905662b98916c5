"""A small classifier by DeepSpeed's engine, which accumulates two microbatches a step. DS_ACCELERATOR=cpu
torchrun --nproc-per-node 2 deepspeed_zero.py [--stage 2] [--dtype bf16] [--own-backward]"""
import argparse
import json
import time

import deepspeed
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ACCUMULATION = 2


def model():
    return nn.Sequential(nn.Linear(256, 1024), nn.GELU(), *[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(3)],
                         nn.Linear(1024, 10))


def engine_of(options):
    config = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": ACCUMULATION, "gradient_clipping": 1.0,
              "steps_per_print": None, "zero_optimization": {"stage": options.stage}}
    if options.dtype:
        config[options.dtype] = {"enabled": True}
    if options.dtype == "fp16":
        config["fp16"].update(initial_scale_power=24, hysteresis=1)  # So high that it leaves out its first steps.
    net = model()
    engine, _, _, _ = deepspeed.initialize(model=net, optimizer=torch.optim.AdamW(net.parameters(), lr=1e-3), config=config,
                                           dist_init_required=False)
    return engine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--dtype", choices=("bf16", "fp16"))
    parser.add_argument("--own-backward", action="store_true", help="loss.backward(), not the engine's")
    options = parser.parse_args()
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # It would compile its own all-reduce for a minute.
    deepspeed.get_accelerator().is_fp16_supported = lambda: True  # Of a CPU it asks for AVX512-FP16. PyTorch computes without it, too.
    deepspeed.init_distributed("gloo")
    rank = torch.distributed.get_rank()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(960, 256), torch.randint(0, 10, (960,)))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    engine = engine_of(options)
    kind = next(engine.module.parameters()).dtype
    with open(f"log-{rank}.jsonl", "w", encoding="utf-8") as log:
        began, losses = time.perf_counter(), []
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(engine(inputs.to(kind)).float(), targets)
            if options.own_backward:
                engine.scale(loss / ACCUMULATION).backward()
            else:
                engine.backward(loss)
            engine.step()
            losses.append(loss.item())
            if len(losses) == ACCUMULATION:
                now = time.perf_counter()
                log.write(json.dumps({"loss": sum(losses) / ACCUMULATION, "ms": 1000 * (now - began), "skipped": engine.skipped_steps}) + "\n")
                began, losses = now, []
    torch.distributed.barrier()  # A Gloo thread that still holds a gathered tensor as Python ends aborts the process.
    torch.distributed.destroy_process_group()
    time.sleep(0.2)  # A thread of Gloo that frees a tensor as Python ends aborts the process.


if __name__ == "__main__":
    main()

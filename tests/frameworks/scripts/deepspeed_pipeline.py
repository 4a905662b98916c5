"""A small classifier in a pipeline of two stages by DeepSpeed, four microbatches a step. DS_ACCELERATOR=cpu
torchrun --nproc-per-node 2 deepspeed_pipeline.py"""
import json
import time

import deepspeed
import torch
from deepspeed.pipe import LayerSpec, PipelineModule
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 30
MICROBATCHES = 4


def main():
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # It would compile its own all-reduce for a minute.
    deepspeed.init_distributed("gloo")
    rank = torch.distributed.get_rank()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(8 * MICROBATCHES * STEPS, 256), torch.randint(0, 10, (8 * MICROBATCHES * STEPS,)))
    layers = [LayerSpec(nn.Linear, 256, 1024), LayerSpec(nn.GELU), LayerSpec(nn.Linear, 1024, 1024), LayerSpec(nn.GELU),
              LayerSpec(nn.Linear, 1024, 1024), LayerSpec(nn.GELU), LayerSpec(nn.Linear, 1024, 10)]
    net = PipelineModule(layers, num_stages=2, loss_fn=nn.functional.cross_entropy)
    config = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": MICROBATCHES, "steps_per_print": None}
    engine, _, _, _ = deepspeed.initialize(model=net, optimizer=torch.optim.AdamW(net.parameters(), lr=1e-3), config=config,
                                           dist_init_required=False)
    batches = iter(DataLoader(data, batch_size=8))
    with open(f"log-{rank}.jsonl", "w", encoding="utf-8") as log:
        began = time.perf_counter()
        for _ in range(STEPS):
            loss = engine.train_batch(data_iter=batches)
            now = time.perf_counter()
            log.write(json.dumps({"loss": loss.item(), "ms": 1000 * (now - began)}) + "\n")
            began = now
    torch.distributed.barrier()  # A Gloo thread that still holds a gathered tensor as Python ends aborts the process.
    torch.distributed.destroy_process_group()
    time.sleep(0.2)  # A thread of Gloo that frees a tensor as Python ends aborts the process.


if __name__ == "__main__":
    main()

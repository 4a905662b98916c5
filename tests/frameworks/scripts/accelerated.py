"""An accelerate training loop with gradient accumulation. accelerate launch accelerated.py, or torchrun"""
import json
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    data = TensorDataset(torch.randn(3776, 256), torch.randint(0, 10, (3776,)))
    held_out = TensorDataset(torch.randn(64, 256), torch.randint(0, 10, (64,)))
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 10))
    model, optimizer, loader, evaluation = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3),
                                                               DataLoader(data, batch_size=8, shuffle=True),
                                                               DataLoader(held_out, batch_size=16))
    loss_of = nn.CrossEntropyLoss()
    with open(f"log-{accelerator.process_index}.jsonl", "w", encoding="utf-8") as log:
        began, losses, steps = time.perf_counter(), [], 0
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                loss = loss_of(model(inputs), targets)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
            if accelerator.sync_gradients:
                now = time.perf_counter()
                log.write(json.dumps({"loss": sum(losses) / len(losses), "ms": 1000 * (now - began)}) + "\n")
                began, losses, steps = now, [], steps + 1
                if steps % 6 == 0:
                    model.eval()
                    for inputs, targets in evaluation:
                        with torch.no_grad():
                            accelerator.gather(loss_of(model(inputs), targets))
                    model.train()
                    began = time.perf_counter()
    if accelerator.is_main_process:
        torch.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
    accelerator.end_training()
    time.sleep(0.2)  # A thread of Gloo that frees a tensor as Python ends aborts the process.


if __name__ == "__main__":
    main()

"""Fits a LightningModule with accumulation, validation and checkpoints."""
import json
import time

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 10))
        self.losses = []

    def training_step(self, batch, index):
        inputs, targets = batch
        loss = nn.functional.cross_entropy(self.net(inputs), targets)
        self.losses.append(loss.item())
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, index):
        inputs, targets = batch
        self.log("validation_loss", nn.functional.cross_entropy(self.net(inputs), targets))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class StepLog(L.Callback):
    def __init__(self, path, accumulation):
        self.file, self.accumulation = open(path, "w", encoding="utf-8"), accumulation
        self.began = None

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        if (index + 1) % self.accumulation == 0:
            now = time.perf_counter()
            losses, module.losses = module.losses, []
            ms = None if self.began is None else 1000 * (now - self.began)
            self.file.write(json.dumps({"loss": sum(losses) / len(losses), "ms": ms}) + "\n")
            self.began = now


def main():
    L.seed_everything(1)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(640, 256), torch.randint(0, 10, (640,)))
    held_out = TensorDataset(torch.randn(64, 256), torch.randint(0, 10, (64,)))
    trainer = L.Trainer(accelerator="cpu", devices=1, max_epochs=2, accumulate_grad_batches=2, val_check_interval=20,
                        enable_progress_bar=False, enable_model_summary=False, logger=False, callbacks=[StepLog("log-0.jsonl", 2)])
    model = Classifier()
    trainer.fit(model, DataLoader(data, batch_size=8, shuffle=True), DataLoader(held_out, batch_size=16))
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()

"""Two optimizers by hand in a LightningModule of the older package: pytorch_lightning."""
import pytorch_lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Two(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.one, self.other = nn.Linear(64, 10), nn.Linear(64, 10)

    def training_step(self, batch, index):
        inputs, targets = batch
        for optimizer, model in zip(self.optimizers(), (self.one, self.other)):
            optimizer.zero_grad()
            self.manual_backward(nn.functional.cross_entropy(model(inputs), targets))
            optimizer.step()

    def configure_optimizers(self):
        return [torch.optim.SGD(model.parameters(), lr=0.01) for model in (self.one, self.other)]


if __name__ == "__main__":
    torch.manual_seed(1)
    trainer = L.Trainer(accelerator="cpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Two(), DataLoader(TensorDataset(torch.randn(96, 64), torch.randint(0, 10, (96,))), batch_size=8))

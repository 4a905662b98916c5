"""Trains a tiny GPT-2 from scratch with transformers' Trainer."""
import json
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

LENGTH = 64


class Samples(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        self.tokens = torch.randint(0, 256, (count, LENGTH), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


class StepTimes(TrainerCallback):
    def __init__(self):
        self.began = None
        self.ms = []

    def on_step_end(self, args, state, control, **kwargs):
        now = time.perf_counter()
        if self.began is not None:
            self.ms.append(1000 * (now - self.began))
        self.began = now

    def on_evaluate(self, args, state, control, **kwargs):
        self.began = None  # The next step's time is not known.

    def on_save(self, args, state, control, **kwargs):
        self.began = None


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=LENGTH, n_embd=128, n_layer=3, n_head=4,
                                       bos_token_id=0, eos_token_id=0))
    times = StepTimes()
    arguments = TrainingArguments(output_dir="out", per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=40,
                                  eval_strategy="steps", eval_steps=8, save_strategy="steps", save_steps=20, logging_steps=4,
                                  report_to="none", disable_tqdm=True, use_cpu=True, learning_rate=3e-4)
    trainer = Trainer(model=model, args=arguments, train_dataset=Samples(320, 1), eval_dataset=Samples(64, 2), callbacks=[times])
    trainer.train()
    trainer.save_model("model")
    with open("log-0.jsonl", "w", encoding="utf-8") as log:
        for ms in times.ms:
            log.write(json.dumps({"ms": ms}) + "\n")
    with open("history.json", "w", encoding="utf-8") as history:
        json.dump([entry for entry in trainer.state.log_history if "loss" in entry or "eval_loss" in entry], history)


if __name__ == "__main__":
    main()

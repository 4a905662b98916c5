"""A causal language model from scratch with transformers' Trainer, as run_clm.py trains it, of made-up tokens: nothing is downloaded.

    torchrun --nproc_per_node 2 clm_trainer.py --output_dir out --max_steps 100 --per_device_train_batch_size 2 ...   (TrainingArguments)
"""
import torch
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

LENGTH = 32


class Tokens(torch.utils.data.Dataset):
    def __init__(self, count):
        self.tokens = torch.randint(0, 512, (count, LENGTH), generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def main():
    (arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=512, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0))
    Trainer(model=model, args=arguments, train_dataset=Tokens(20000)).train(resume_from_checkpoint=get_last_checkpoint(arguments.output_dir))


if __name__ == "__main__":
    main()

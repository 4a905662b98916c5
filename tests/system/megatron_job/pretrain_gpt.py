"""A small residual network in the place of a GPT; the plan decides microbatches and what is recomputed."""
import torch
import torch.distributed as distributed
from torch.utils.checkpoint import checkpoint

from megatron.training import pretrain


class Block(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.mlp = torch.nn.Sequential(torch.nn.LayerNorm(hidden), torch.nn.Linear(hidden, 4 * hidden), torch.nn.GELU(),
                                       torch.nn.Linear(4 * hidden, hidden))

    def forward(self, x):
        return x + self.mlp(x)


class Model(torch.nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embedding = torch.nn.Embedding(args.vocab_size, args.hidden_size)
        self.layers = torch.nn.ModuleList(Block(args.hidden_size) for _ in range(args.num_layers))
        self.head = torch.nn.Linear(args.hidden_size, args.vocab_size)
        everything = args.recompute_granularity == "selective" or args.recompute_method == "uniform"
        self.recomputed = args.num_layers if everything else args.recompute_num_layers or 0

    def forward(self, tokens):
        x = self.embedding(tokens)
        for number, layer in enumerate(self.layers):
            x = checkpoint(layer, x, use_reentrant=False) if number < self.recomputed else layer(x)
        return self.head(x)


def samples(args):
    """Of this rank, one microbatch after the other: an iteration's are the same under every plan."""
    count = args.global_batch_size // args.data_parallel_size
    first = distributed.get_rank() // args.tensor_model_parallel_size * count
    while True:
        generator = torch.Generator().manual_seed(args.curr_iteration)
        tokens = torch.randint(args.vocab_size, (args.global_batch_size, args.seq_length + 1), generator=generator)
        yield from tokens[first : first + count].split(args.micro_batch_size)


def forward_step(data_iterator, model):
    tokens = next(data_iterator)
    return torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


if __name__ == "__main__":
    torch.set_num_threads(1)
    pretrain(samples, Model, forward_step)

"""Megatron-LM's words, as many as this program knows; another one ends it."""
import argparse

SIZES = ("num-layers", "hidden-size", "num-attention-heads", "seq-length", "max-position-embeddings", "vocab-size",
         "micro-batch-size", "global-batch-size", "train-iters", "lr-decay-iters", "save-interval")


def parse_args():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in SIZES:
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--pipeline-model-parallel-size", type=int, choices=(1,), default=1)
    parser.add_argument("--tensor-model-parallel-size", type=int, default=1)  # Its ranks all do the whole work.
    parser.add_argument("--exit-interval", type=int)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--load")
    parser.add_argument("--save", required=True)
    parser.add_argument("--exit-signal-handler", action="store_true")
    parser.add_argument("--recompute-granularity", choices=("full", "selective"))
    parser.add_argument("--recompute-method", choices=("uniform", "block"))
    parser.add_argument("--recompute-num-layers", type=int)
    parser.add_argument("--recompute-modules", choices=("mlp",))
    # Either way the optimizer's states are shared out, and whole in checkpoints.
    parser.add_argument("--use-distributed-optimizer", action="store_true")
    parser.add_argument("--use-megatron-fsdp", action="store_true")
    parser.add_argument("--data-parallel-sharding-strategy")
    parser.add_argument("--ckpt-format")
    return parser.parse_args()

#!/usr/bin/env python3
"""What tensor-parallel ranks do not divide of a layer's computing: u in (u + (1 - u) / tp) of one rank's time, in
Aceso's published V100 profile of GPT. Prints Markdown. Needs ../shared/peers (or $TRIMTAB_PEERS).

A profiled operator's time at tp > 1 contains its all-reduce: the forward passes of the row-split products (dense,
second GEMM) and the backward passes of the column-split ones (qkv, first GEMM). Those are taken to be shared as the
other product of the pair is, whose pass has none."""

import csv
import gzip
import os
import pathlib
import statistics
import sys

LAYER = ["1st-layernorm", "attention-qkv", "attention-score", "attention-softmax", "attention-dropout",
         "attention-context", "attention-dense", "post-attention-dropout", "2nd-layernorm", "MLP-GEMM-1", "MLP-gelu",
         "MLP-GEMM-2", "post-MLP-dropout"]
WHOLE = {"1st-layernorm", "post-attention-dropout", "2nd-layernorm", "post-MLP-dropout"}  # on every rank
LIKE = [{"attention-dense": "attention-qkv", "MLP-GEMM-2": "MLP-GEMM-1"},   # by pass: forward, backward
        {"attention-qkv": "attention-dense", "MLP-GEMM-1": "MLP-GEMM-2"}]


def read_times(peers):
    times = {}
    with gzip.open(peers / "aceso_v100" / "operators.csv.gz", "rt") as rows:
        for row in csv.DictReader(rows):
            if (row["db"], row["model"], row["algo"]) == ("eurosys", "gpt", "0"):
                key = (row["size"], int(row["microbatch_samples"]), row["op_name"].removeprefix("enc-"), int(row["tp"]))
                times[key] = (float(row["fwd_us"]), float(row["bwd_us"]))
    return times


def computing(times, size, samples, name, tp, which):
    like = LIKE[which].get(name, name) if tp > 1 else name
    alone = times[size, samples, name, 1][which]
    return alone * times[size, samples, like, tp][which] / times[size, samples, like, 1][which]


def undivided(times, size, samples, names, tp):
    ranks = sum(computing(times, size, samples, name, tp, which) for name in names for which in (0, 1))
    alone = sum(times[size, samples, name, 1][which] for name in names for which in (0, 1))
    return (ranks * tp / alone - 1) / (tp - 1)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    peers = pathlib.Path(os.environ.get("TRIMTAB_PEERS", root / ".." / "shared" / "peers"))
    if not (peers / "aceso_v100").is_dir():
        print(f"skipped: no published profile in {peers}: set TRIMTAB_PEERS", file=sys.stderr)
        return 0
    times = read_times(peers)
    print("| model, samples | tp 2 | tp 4 | tp 8 | tp 8, without norms and residuals |\n|---|---|---|---|---|")
    means = {}
    divided = [name for name in LAYER if name not in WHOLE]
    for size, samples in sorted({key[:2] for key in times}):
        shares = [undivided(times, size, samples, LAYER, tp) for tp in (2, 4, 8)]
        shares.append(undivided(times, size, samples, divided, 8))
        print(f"| {size}, {samples} | " + " | ".join(f"{share:.3f}" for share in shares) + " |")
        if size in ("1_3B", "2_6B", "13B"):
            for column, share in enumerate(shares):
                means.setdefault(column, []).append(share)
    for name, of in (("mean of 1.3B to 13B", statistics.mean), ("standard deviation", statistics.pstdev)):
        print(f"| {name} | " + " | ".join(f"{of(means[column]):.3f}" for column in sorted(means)) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

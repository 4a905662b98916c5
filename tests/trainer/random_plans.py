"""Random plans of the whole space that the trainer executes."""
import json

from harness import GLOBAL_BATCH, OPERATORS

import plan as plans

SHARED = ((True, 2, 1), (True, 4, 1), (True, 2, 2), (False, 1, 2), (False, 1, 4), (False, 2, 2))
LEVELS = ("none", "none", "optimizer", "gradients", "parameters")


def random_plan(generator, world_size, config):
    """A plan document that parses; drawn anew until it does."""
    while True:
        document = drawn(generator, world_size)
        try:
            plans.parse(document, config, world_size)
        except plans.PlanRefused:
            continue
        return document


def drawn(generator, world_size):
    seats = generator.choice([count for count in (1, 1, 2, 2, 3, 4) if count <= world_size])
    devices = list(range(world_size))
    if generator.random() < 0.5:
        generator.shuffle(devices)
    device_cuts = [0, *sorted(generator.sample(range(1, world_size), seats - 1)), world_size]
    groups = [devices[first:last] for first, last in zip(device_cuts, device_cuts[1:])]
    schedule = {"kind": generator.choice(["1f1b", "1f1b", "1f1b", "gpipe", *["interleaved"] * min(2, seats - 1)]),
                "transfers": generator.choice(["blocking", "eager"])}
    rounds = generator.choice([2, 2, 3] if seats < 3 else [2]) if schedule["kind"] == "interleaved" else 1
    stages = seats * rounds
    operator_cuts = [0, *sorted(generator.sample(range(1, OPERATORS), stages - 1)), OPERATORS]
    kind = generator.choice(["plain", "plain", "sliced", "sub-batches"])
    if kind == "sliced" and rounds == 1:
        schedule["sliced_microbatches"] = generator.randint(1, 3)
    elif kind == "sub-batches":
        schedule.update(sub_batches=generator.choice([2, 2, 3]), cross_pass=generator.random() < 0.5,
                        recompute_after_communication=generator.random() < 0.5)
    # Groups of microbatches go round with the stages.
    microbatches = [size for size in (1, 2, 3, 4, 6) if GLOBAL_BATCH // size % seats == 0] if rounds > 1 else [2, 4, 6, 12]
    shared = None
    if generator.random() < 0.5:  # All segments alike: (do tensor-parallel ranks share sequences, tp, cp).
        possible = [one for one in SHARED if not any(len(group) % (one[1] * one[2]) for group in groups)]
        shared = generator.choice(possible or [None])
    document = {"schema": plans.SCHEMA, "model": "tiny", "global_batch": GLOBAL_BATCH,
                "microbatch": generator.choice(microbatches), "schedule": schedule}
    if shared:
        document["target_knobs"] = {"sequence_parallel": shared[0]}
    document["stages"] = [_stage(generator, groups[number % seats], begin, end, shared)
                          for number, (begin, end) in enumerate(zip(operator_cuts, operator_cuts[1:]))]
    return document


def _stage(generator, devices, begin, end, shared):
    count = generator.randint(1, min(3, end - begin))
    cuts = [begin, *sorted(generator.sample(range(begin + 1, end), count - 1)), end]
    return {"devices": devices, "segments": [_segment(generator, len(devices), low, high, shared)
                                             for low, high in zip(cuts, cuts[1:])]}


def _segment(generator, devices, begin, end, shared):
    tp, cp = shared[1:] if shared else (generator.choice([degree for degree in range(1, devices + 1) if devices % degree == 0]), 1)
    dp = max(1, devices // (tp * cp))
    segment = {"operators": [begin, end], "dp": dp, "tp": tp, "cp": cp,
               "tp_consecutive": shared is not None or generator.random() < 0.6,
               "recompute": [[i, i + 1] for i in range(begin, end) if generator.random() < 0.3]}
    switches = {"offload_optimizer": generator.random() < 0.5,
                "offload_hidden": [pair for pair in segment["recompute"] if generator.random() < 0.5],
                **{name: _some(generator, begin, end)
                   for name in ("segment_sync", "economical_forward", "economical_backward")}}
    level = generator.choice(LEVELS)
    if dp > 1 and level != "none":
        degrees = [0, dp, *(degree for degree in range(2, dp) if dp % degree == 0 for _ in range(4))]  # Most of them HSDP.
        segment.update(sharded=level, sharded_degree=generator.choice(degrees))
    if dp == 1 or level == "gradients":
        switches["partition_parameters"] = partitioned = _some(generator, begin, end)
        switches["lazy_prefetch"] = [pair for pair in partitioned if generator.random() < 0.6]
    if shared is None and generator.random() < (0.8 if level == "gradients" else 0.3):
        segment["switches"] = switches
    return segment


def _some(generator, begin, end):
    return [[i, i + 1] for i in range(begin, end) if generator.random() < 0.5]


def text(document):
    return json.dumps(document, separators=(",", ":"))

"""Random plans that a target honours."""


def _power(random, most):
    choices = [1 << i for i in range(most.bit_length()) if 1 << i <= most]
    return random.choice(choices)


def _cut_layers(random, layers, stages, least):
    """Counts of layers for each stage."""
    counts = [least] * stages
    for _ in range(layers - least * stages):
        counts[random.randrange(stages)] += 1
    return counts


def _stage_ranges(shape, counts):
    ranges, layer, begin = [], 0, 0
    for number, count in enumerate(counts):
        layer += count
        end = shape.layer_range(layer - 1)[1] if layer else shape.before
        if number == len(counts) - 1:
            end = shape.operators
        ranges.append((begin, end))
        begin = end
    return ranges


def _batch(random, dp):
    samples, steps = _power(random, 4), random.randint(1, 8)
    return samples * dp, samples * dp * steps


def _merge(indices):
    ranges = []
    for index in sorted(indices):
        if ranges and ranges[-1][1] == index:
            ranges[-1][1] = index + 1
        else:
            ranges.append([index, index + 1])
    return ranges


def _inside(indices, begin, end):
    return _merge(index for index in indices if begin <= index < end)


def _plan(batch, microbatch, stages, kind="1f1b", knobs=None):
    plan = {"schema": "trimtab.plan/1", "model": "random", "global_batch": batch, "microbatch": microbatch,
            "schedule": {"kind": kind, "transfers": "blocking"}, "stages": stages}
    if knobs:
        plan["target_knobs"] = knobs
    return plan


def _megatron_recompute(random, shape, counts):
    mode = random.choice(["none", "all", "first", "mlp"])
    layers = set()
    if mode == "none":
        return set()
    if mode == "mlp":
        return {i for i in range(shape.operators) if shape.is_mlp(i)}
    first, most = 0, random.randint(1, max(counts))
    for count in counts:
        layers |= set(range(first, first + (count if mode == "all" else min(most, count))))
        first += count
    return {i for layer in layers for i in range(*shape.layer_range(layer))}


def megatron(random, shape):
    stages = random.choice([1, 1, 2, 3, 4])
    rounds = random.choice([1, 1, 2]) if stages > 1 and 2 * stages <= shape.layers else 1
    tp, dp, cp = _power(random, 4), _power(random, 8), random.choice([1, 1, 2])
    size = tp * dp * cp
    microbatch, batch = _batch(random, dp)
    if rounds > 1:
        batch = microbatch * stages * random.randint(1, 4)
    counts = _cut_layers(random, shape.layers, stages * rounds, 0 if rounds == 1 else 1)
    # An empty stage between others would have no operators; the first and the last have the ends.
    if any(count == 0 for count in counts[1:-1]) or (stages == 1 and not shape.layers):
        counts = _cut_layers(random, shape.layers, stages * rounds, 1)
    if shape.before == 0 or shape.after == 0:
        counts = _cut_layers(random, shape.layers, stages * rounds, 1)
    sharded = random.choice(["none", "optimizer"] + (["gradients", "parameters"] if stages == 1 else []))
    degree = 0
    if dp == 1:
        sharded = "none"
    elif sharded == "optimizer" and dp >= 4 and random.random() < 0.7:
        degree = dp // 2
    recompute = _megatron_recompute(random, shape, counts)
    offload = sharded == "optimizer" and random.random() < 0.5
    out = []
    for number, (begin, end) in enumerate(_stage_ranges(shape, counts)):
        first = number % stages * size
        segment = {"operators": [begin, end], "dp": dp, "tp": tp, "cp": cp, "sharded": sharded,
                   "sharded_degree": degree, "recompute": _inside(recompute, begin, end)}
        if offload:
            segment["switches"] = {"offload_optimizer": True}
        out.append({"devices": list(range(first, first + size)), "segments": [segment]})
    knobs = {}
    if tp > 1 and random.random() < 0.5:
        knobs["sequence_parallel"] = True
    if random.random() < 0.6:
        knobs["bucket_bytes"] = 4 * random.randint(1, 1 << 26)
        if sharded == "optimizer" and random.random() < 0.7:
            knobs["overlap_parameter_gather"] = True
    return _plan(batch, microbatch, out, "interleaved" if rounds > 1 else "1f1b", knobs)


def galvatron(random, shape):
    stages = random.choice([s for s in (1, 1, 2, 4) if s <= shape.layers])
    size = _power(random, 8)
    microbatch, batch = _batch(random, size)
    counts = _cut_layers(random, shape.layers, stages, 1)
    kind = random.choice(["none", "gradients"])

    def split():
        tp = _power(random, size)
        cp = 2 if size // tp > 1 and random.random() < 0.3 else 1
        dp = size // tp // cp
        sharded = random.choice([kind, "parameters"]) if dp > 1 else "none"
        return {"dp": dp, "tp": tp, "cp": cp, "sharded": sharded, "tp_consecutive": tp == 1 or dp * cp == 1 or random.random() < 0.7}

    ends = split()
    ends["tp_consecutive"] = True
    splits = [split() for _ in range(shape.layers)]
    recompute = {i for layer in range(shape.layers) if random.random() < 0.5 for i in range(*shape.layer_range(layer))}
    out = []
    for number, (begin, end) in enumerate(_stage_ranges(shape, counts)):
        segments = []
        index = begin
        while index < end:
            layer = shape.layer_of(index)
            if layer is not None:
                last = shape.layer_range(layer)[1]
            else:
                last = shape.before if index < shape.before else shape.operators
            chosen = ends if layer is None else splits[layer]
            segments.append({"operators": [index, last], "recompute": _inside(recompute, index, last), **chosen})
            index = last
        out.append({"devices": list(range(number * size, (number + 1) * size)), "segments": segments})
    return _plan(batch, microbatch, out, random.choice(["1f1b", "gpipe"]))


def _data_parallel(random, shape, levels, *, recompute, offload=False, buckets=False, hybrid=False):
    dp = _power(random, 16)
    microbatch, batch = _batch(random, dp)
    sharded = random.choice(levels) if dp > 1 else "none"
    segment = {"operators": [0, shape.operators], "dp": dp, "tp": 1, "sharded": sharded}
    if hybrid and sharded != "none" and dp >= 4 and random.random() < 0.7:
        segment["sharded_degree"] = dp // 2
    if recompute:
        chosen = {i for layer in range(shape.layers) if random.random() < 0.5 for i in range(*shape.layer_range(layer))}
        segment["recompute"] = _merge(chosen)
    if offload and sharded != "none" and random.random() < 0.4:
        segment["switches"] = {"offload_optimizer": True}
    knobs = {}
    if buckets and random.random() < 0.5 and (not offload or sharded != "none"):
        knobs["bucket_bytes"] = 4 * random.randint(1, 1 << 26)
    return _plan(batch, microbatch, [{"devices": list(range(dp)), "segments": [segment]}], knobs=knobs)


def deepspeed(random, shape):
    return _data_parallel(random, shape, ["none", "optimizer", "gradients", "parameters"], recompute=False,
                          offload=True, buckets=True)


def ddp(random, shape):
    return _data_parallel(random, shape, ["none", "optimizer"], recompute=True, buckets=True)


def fsdp(random, shape):
    return _data_parallel(random, shape, ["none", "gradients", "parameters"], recompute=True, hybrid=True)


def _one_recompute(random, shape, plan):
    """Every layer recomputed, or none."""
    segment = plan["stages"][0]["segments"][0]
    switched = "switches" in segment and segment["sharded"] == "gradients"
    if random.random() < 0.5 and not switched:
        segment["recompute"] = [[shape.before, shape.operators - shape.after]]
    return plan


def transformers(random, shape):
    plan = _one_recompute(random, shape, _data_parallel(random, shape, ["none", "none", "gradients", "parameters"], recompute=False))
    if plan["stages"][0]["segments"][0]["sharded"] == "none" and random.random() < 0.5:
        plan["target_knobs"] = {"bucket_bytes": random.randint(1, 200) << 20}
    return plan


def transformers_deepspeed(random, shape):
    return _one_recompute(random, shape, deepspeed(random, shape))


def fsdp2(random, shape):
    return fsdp(random, shape)


def accelerate(random, shape):
    plan = _data_parallel(random, shape, ["none", "gradients", "parameters"], recompute=False, hybrid=True)
    return plan if plan["stages"][0]["segments"][0]["sharded"] == "none" else _one_recompute(random, shape, plan)


def accelerate_deepspeed(random, shape):
    return _data_parallel(random, shape, ["none", "optimizer", "gradients", "parameters"], recompute=False, offload=True)


def lightning(random, shape):
    plan = _data_parallel(random, shape, ["none", "gradients", "parameters"], recompute=False, hybrid=True)
    if plan["stages"][0]["segments"][0]["sharded"] == "none" and random.random() < 0.5:
        plan["target_knobs"] = {"bucket_bytes": random.randint(1, 1 << 27)}
    return plan


def lightning_deepspeed(random, shape):
    return deepspeed(random, shape)


def _every_nth(random, shape, counts, groups, most):
    """Operators of each N-th layer that a device has; of no layer where N is 0."""
    every = random.randint(0, most)
    seen, layer, chosen = [0] * groups, 0, set()
    for stage, count in enumerate(counts):
        for _ in range(count):
            seen[stage % groups] += 1
            if every and seen[stage % groups] % every == 0:
                chosen |= set(range(*shape.layer_range(layer)))
            layer += 1
    return chosen


def _torchtitan(random, shape, toml):
    stages = random.choice([s for s in (1, 1, 2, 4) if s <= shape.layers])
    rounds = random.choice([1, 1, 2]) if stages > 1 and 2 * stages <= shape.layers else 1
    tp, dp, cp = _power(random, 4), _power(random, 8), random.choice([1, 1, 2])
    sharded = random.choice(["none", "gradients", "parameters"])
    if dp == 1:
        sharded, cp = "none", 1
    elif cp > 1 or (toml and (tp > 1 or stages > 1)):
        sharded = random.choice(["gradients", "parameters"])
    microbatch, batch = _batch(random, dp)
    if stages > 1:
        batch = microbatch * stages * random.randint(1, 4)
    counts = _cut_layers(random, shape.layers, stages * rounds, 1)
    recompute = _every_nth(random, shape, counts, stages, 3 if toml else 1)
    degree = dp // 2 if sharded != "none" and dp >= 4 and random.random() < 0.5 else 0
    size, out = tp * dp * cp, []
    for number, (begin, end) in enumerate(_stage_ranges(shape, counts)):
        first = number % stages * size
        segment = {"operators": [begin, end], "dp": dp, "tp": tp, "cp": cp, "sharded": sharded, "sharded_degree": degree,
                   "recompute": _inside(recompute, begin, end)}
        out.append({"devices": list(range(first, first + size)), "segments": [segment]})
    kind = "interleaved" if rounds > 1 else random.choice(["1f1b", "gpipe"]) if stages > 1 else "1f1b"
    shared = tp > 1 and (toml or random.random() < 0.5)
    return _plan(batch, microbatch, out, kind, {"sequence_parallel": True} if shared else None)


def torchtitan(random, shape):
    return _torchtitan(random, shape, toml=False)


def torchtitan_toml(random, shape):
    return _torchtitan(random, shape, toml=True)


def pipelining(random, shape):
    groups, dp = random.choice([1, 2, 2, 3, 4]), _power(random, 4)
    rounds = random.choice([1, 2]) if groups > 1 and 2 * groups <= shape.layers else 1
    kind = "interleaved" if rounds > 1 else random.choice(["1f1b", "gpipe"])
    microbatch, batch = _batch(random, dp)
    if kind != "gpipe":
        batch = microbatch * groups * random.randint(1, 4)
    recompute = {i for layer in range(shape.layers) if random.random() < 0.5 for i in range(*shape.layer_range(layer))}
    out = []
    for number, (begin, end) in enumerate(_stage_ranges(shape, _cut_layers(random, shape.layers, groups * rounds, 1))):
        segment = {"operators": [begin, end], "dp": dp, "recompute": _inside(recompute, begin, end)}
        out.append({"devices": list(range(number % groups * dp, (number % groups + 1) * dp)), "segments": [segment]})
    return _plan(batch, microbatch, out, kind)


GENERATORS = {"megatron": megatron, "galvatron": galvatron, "deepspeed": deepspeed, "ddp": ddp, "fsdp": fsdp,
              "torchtitan": torchtitan, "torchtitan-0.2": torchtitan_toml, "transformers": transformers,
              "transformers-deepspeed": transformers_deepspeed, "fsdp2": fsdp2, "pipelining": pipelining, "accelerate": accelerate,
              "accelerate-deepspeed": accelerate_deepspeed, "lightning": lightning, "lightning-deepspeed": lightning_deepspeed}

"""Follows PyTorch's caching allocator through three steps of nanotron's first stage, and prints what it holds beside its tensors.

    bench/scoreboard/followed_allocator.py

For each plan: tensors at most and reserved at the end (GiB), and the share of the latter that is free at that peak. The host is
not ahead of the device here. Tensors and their order are those of nanotron's Llama of February 2025. The allocator's rules
are those of c10/cuda/CUDACachingAllocator.cpp: two pools, the smallest block that fits, cut where more than 1 MiB is left, joined
again within its segment. estimates/src/reserved_memory.cpp takes its share of fragments in part from here.
"""

import bisect
import dataclasses
import statistics

MIB = 1 << 20
GIB = 1 << 30


class Block:
    def __init__(self, size, pool):
        self.size, self.pool, self.used = size, pool, False
        self.before = self.after = None


class Allocator:
    def __init__(self):
        self.free = ([], [])  # of each pool: (size, id, block), sorted
        self.reserved = self.allocated = self.most = 0

    def take(self, size):
        size = max(512, (int(size) + 511) // 512 * 512)
        pool = 0 if size <= MIB else 1
        place = bisect.bisect_left(self.free[pool], (size, -1))
        block = self.free[pool].pop(place)[2] if place < len(self.free[pool]) else self._segment(size, pool)
        self._cut(block, size)
        block.used = True
        self.allocated += block.size
        self.most = max(self.most, self.allocated)
        return block

    def give(self, *blocks):
        for block in blocks:
            block.used = False
            self.allocated -= block.size
            self._join(block)
            bisect.insort(self.free[block.pool], (block.size, id(block), block))

    def _segment(self, size, pool):
        if pool == 0:
            size = 2 * MIB
        elif size < 10 * MIB:
            size = 20 * MIB
        else:
            size = (size + 2 * MIB - 1) // (2 * MIB) * 2 * MIB
        self.reserved += size
        return Block(size, pool)

    def _cut(self, block, size):
        left = block.size - size
        if left < 512 or (block.pool == 1 and left <= MIB):
            return
        rest = Block(left, block.pool)
        rest.before, rest.after = block, block.after
        if block.after:
            block.after.before = rest
        block.after, block.size = rest, size
        bisect.insort(self.free[rest.pool], (rest.size, id(rest), rest))

    def _join(self, block):
        after = block.after
        if after and not after.used:
            self._forget(after)
            block.size += after.size
            block.after = after.after
            if block.after:
                block.after.before = block
        before = block.before
        if before and not before.used:
            self._forget(before)
            block.size += before.size
            block.before = before.before
            if block.before:
                block.before.after = block

    def _forget(self, block):
        place = bisect.bisect_left(self.free[block.pool], (block.size, id(block)))
        self.free[block.pool].pop(place)


@dataclasses.dataclass
class Plan:
    hidden: int
    ffn: int
    layers: int  # of the first stage
    tied: bool
    replicas: int
    tensor: int
    stages: int
    microbatch: int
    microbatches: int
    zero: bool
    sequence: int = 4096
    vocabulary: int = 131072
    head: int = 64


class Stage:
    """nanotron's first stage: each method takes and gives the tensors of a pass in the order of its operators."""

    def __init__(self, plan):
        self.plan, self.memory = plan, Allocator()
        tokens = plan.sequence * plan.microbatch
        self.whole = 2 * tokens * plan.hidden
        self.part = self.whole / plan.tensor
        self.wide = 2 * tokens * plan.ffn / plan.tensor
        self.sums = 4 * tokens * plan.hidden / plan.head / plan.tensor  # attention's logarithms of sums
        self.logits = tokens * plan.vocabulary / plan.tensor  # how many
        square, tall = plan.hidden**2 / plan.tensor, plan.hidden * plan.ffn / plan.tensor
        self.weights = {"qkv": 3 * square, "output": square, "gate_up": 2 * tall, "down": tall}
        self.table = plan.vocabulary * plan.hidden / plan.tensor
        self.parameters = list(self.weights.values()) * plan.layers + [self.table]
        if plan.stages == 1 and not plan.tied:
            self.parameters.append(self.table)
        self.gradients = []
        self._states()

    def _states(self):
        take, plan = self.memory.take, self.plan
        count = sum(self.parameters)
        for size in self.parameters:
            take(2 * size)
        take(4 * count)
        self.shards = plan.replicas if plan.zero else 1
        take(4 * count / self.shards)
        if plan.replicas > 1 and not plan.zero:
            for size in self.parameters:
                take(2 * size)
        if plan.tensor > 1:
            take(self.whole), take(self.whole)

    def passing(self, size):
        self.memory.give(self.memory.take(size))

    def gradient(self, weight):
        self.gradients.append(self.memory.take(2 * self.weights[weight]))

    def layer_forward(self, layer_input):
        take, give = self.memory.take, self.memory.give
        normed = take(self.part)
        qkv, ordered = take(3 * self.part), take(3 * self.part)
        joined, keys_values = take(2 * self.part), take(2 * self.part)
        give(joined)
        queries = take(self.part)
        give(ordered)
        context, sums = take(self.part), take(self.sums)
        if self.plan.tensor > 1:
            self.passing(self.whole)
        output = take(self.part)
        give(qkv)
        added = take(self.part)
        give(output)
        kept = [layer_input, normed, keys_values, queries, context, sums, added]
        kept += [take(self.part), take(2 * self.wide), take(self.wide), take(self.wide)]
        if self.plan.tensor > 1:
            self.passing(self.whole)
        output, result = take(self.part), take(self.part)
        give(output)
        return result, kept

    def layer_backward(self, gradient, kept):
        take, give = self.memory.take, self.memory.give
        layer_input, normed, keys_values, queries, context, sums, added, normed_2, merged, silu, product = kept
        above = take(self.wide)
        self.gradient("down")
        give(product)
        left, right = take(self.wide), take(self.wide)
        give(above, silu)
        gate = take(self.wide)
        give(left)
        both = take(2 * self.wide)
        give(gate, right, merged)
        gradient = self._product_backward("gate_up", both, normed_2, added, gradient)
        above = take(self.part)
        self.gradient("output")
        flash, flash_kv = take(self.part), take(2 * self.part)
        give(above, context, sums, queries, keys_values)
        rotated, rotated_kv = take(self.part), take(2 * self.part)
        give(flash, flash_kv)
        ordered = take(3 * self.part)
        give(rotated, rotated_kv)
        qkv = take(3 * self.part)
        give(ordered)
        return self._product_backward("qkv", qkv, normed, layer_input, gradient)

    def _product_backward(self, weight, above, product_input, norm_input, gradient):
        """Of a column-parallel product and of the norm before it. What comes by the residual is added."""
        take, give = self.memory.take, self.memory.give
        if self.plan.tensor > 1:
            self.passing(self.whole)
        below = take(self.part)
        self.gradient(weight)
        give(above, product_input)
        norm = take(self.part)
        give(below, norm_input)
        result = take(self.part)
        give(norm, gradient)
        return result

    def forward(self):
        take, give = self.memory.take, self.memory.give
        hidden = take(self.whole)
        if self.plan.tensor > 1:
            undivided, hidden = hidden, take(self.part)
            give(undivided)
        kept = []
        for _ in range(self.plan.layers):
            hidden, of_layer = self.layer_forward(hidden)
            kept.append(of_layer)
        if self.plan.stages > 1:
            give(hidden)
            return kept, None
        normed, half, logits = take(self.part), take(2 * self.logits), take(4 * self.logits)
        give(half)
        softmax = take(4 * self.logits)
        give(logits)
        return kept, (hidden, normed, softmax)

    def backward(self, kept, head):
        take, give = self.memory.take, self.memory.give
        if head:
            hidden, normed, softmax = head
            logits = take(2 * self.logits)
            give(softmax)
            if self.plan.tensor > 1:
                self.passing(self.whole)
            below = take(self.part)
            self.gradients.append(take(2 * self.table))
            give(logits, normed)
            gradient = take(self.part)
            give(below, hidden)
        else:
            gradient = take(self.part)
        for of_layer in reversed(kept):
            gradient = self.layer_backward(gradient, of_layer)
        self.gradients.append(take(2 * self.table))
        give(gradient, *self.gradients)
        self.gradients.clear()

    def step(self, first):
        waiting = []
        for _ in range(self.plan.microbatches):
            waiting.append(self.forward())
            if len(waiting) == self.plan.stages:
                self.backward(*waiting.pop(0))
        while waiting:
            self.backward(*waiting.pop(0))
        take, give = self.memory.take, self.memory.give
        if first:  # Adam's moments
            for size in self.parameters:
                take(4 * size / self.shards), take(4 * size / self.shards)
        if self.plan.zero and self.plan.replicas > 1:
            size = 2 * sum(self.parameters) / self.plan.replicas
            give(*[take(size) for _ in range(self.plan.replicas + 1)])


def plans():
    """Of 1.3e9 and 8.9e9 parameters: layers of the first stage, replicas, tensor, stages, microbatch, microbatches, ZeRO-1."""
    small = [
        (11, 1, 32, 2, 64, 4, False), (11, 1, 16, 2, 32, 6, False), (11, 1, 16, 2, 64, 4, False), (3, 1, 16, 8, 32, 8, False),
        (3, 1, 16, 8, 8, 18, False), (6, 1, 16, 4, 32, 8, False), (11, 1, 8, 2, 16, 6, False), (11, 1, 8, 2, 32, 6, False),
        (6, 1, 8, 4, 16, 10, False), (11, 4, 8, 2, 16, 4, True), (3, 2, 2, 8, 4, 18, True), (16, 1, 8, 1, 16, 4, False),
        (16, 4, 8, 1, 16, 4, False), (16, 16, 1, 1, 1, 4, True), (16, 16, 1, 1, 2, 4, True), (16, 1, 32, 1, 16, 4, False),
    ]  # fmt: skip
    large = [
        (5, 4, 1, 8, 1, 18, True), (5, 1, 1, 8, 1, 18, False), (9, 2, 4, 4, 8, 10, True),
        (18, 4, 8, 2, 4, 6, True), (18, 4, 8, 2, 8, 6, True), (32, 1, 16, 1, 16, 4, False),
    ]  # fmt: skip
    return [Plan(2048, 8192, row[0], True, *row[1:]) for row in small] + [
        Plan(4096, 14336, row[0], False, *row[1:], head=128) for row in large
    ]


def main():
    shares = []
    for plan in plans():
        stage = Stage(plan)
        for step in range(3):
            stage.step(step == 0)
        memory = stage.memory
        shares.append(memory.reserved / memory.most - 1)
        print(f"{plan}\n    {memory.most / GIB:.1f} {memory.reserved / GIB:.1f} GiB, {100 * shares[-1]:.1f} % beside")
    print(f"{len(shares)} plans: {100 * min(shares):.1f} to {100 * max(shares):.1f} %, median {100 * statistics.median(shares):.1f} %")


if __name__ == "__main__":
    main()

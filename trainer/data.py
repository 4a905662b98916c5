"""A synthetic token stream that can be learnt, and that depends on nothing but the seed and the sample's number.

Because sample `i` is the same whoever asks for it, any rank of any plan makes the samples it needs by itself, and
"the order of the data" is only the global step. Even positions follow a skewed distribution; odd positions are mostly
a fixed function of the token before them, so the loss falls first towards the skew and then towards the function.
"""
import torch

NO_TARGET = -100  # Stands where padding follows; what cross_entropy() leaves out.
_MASK = (1 << 64) - 1
_NOISE = 0.1  # Share of odd positions that do not follow the rule: the loss has a floor above zero.


def mix64(value):
    """SplitMix64's finaliser: neighbouring numbers come out unrelated."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def derived_seed(*parts):
    """A 63-bit seed for the stream that `parts` (small integers) name."""
    seed = 0
    for part in parts:
        seed = mix64(seed ^ (part & _MASK))
    return seed >> 1


def sample_hash(sample_ids):
    """Order-free hash of a set of samples: sums of disjoint sets combine by addition modulo 2**64."""
    return sum(mix64(sample) for sample in sample_ids) & _MASK


class TokenStream:
    """Makes (tokens, targets) for sample ids. Holds no position: callers pass the ids."""

    def __init__(self, config):
        self._sequence = config.sequence
        self._vocabulary = config.vocabulary
        self._seed, self._padding = config.seed, config.padding
        self._generator = torch.Generator()

    def batch(self, sample_ids):
        """Two int64 tensors [len(sample_ids), sequence]: the tokens, and the token after each or NO_TARGET."""
        rows = torch.stack([self._sample(sample) for sample in sample_ids])
        # Of a single row both were views of the same memory.
        tokens, targets = rows[:, :-1].contiguous(), rows[:, 1:].clone(memory_format=torch.contiguous_format)
        if self._padding:
            for row, sample in enumerate(sample_ids):
                length = self._length(sample)
                tokens[row, length:] = 0
                targets[row, length:] = NO_TARGET
        return tokens, targets

    def counted(self, sample_ids):
        """How many of these samples' tokens have a target."""
        return sum(self._length(sample) for sample in sample_ids)

    def _length(self, sample):
        """Of the sample without its padding, in tokens."""
        if not self._padding:
            return self._sequence
        share = self._padding * derived_seed(self._seed, 4, sample) / (1 << 63)
        return max(1, self._sequence - int(share * self._sequence))

    def _sample(self, sample):
        length = self._sequence + 1 + (self._sequence + 1) % 2
        self._generator.manual_seed(derived_seed(self._seed, 1, sample))
        uniform = torch.rand(2, length, generator=self._generator)
        vocabulary = self._vocabulary
        skewed = (uniform[0].pow(3) * vocabulary).long().clamp_(max=vocabulary - 1)
        row = skewed.clone()
        follows = uniform[1, 1::2] >= _NOISE
        row[1::2] = torch.where(follows, (skewed[0::2] * 5 + 3) % vocabulary, skewed[1::2])
        return row[: self._sequence + 1]

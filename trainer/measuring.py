"""What has become doubtful, measured again between two steps of a running job: with the modules that are trained, in groups
of the job's own processes (docs/protocols.md, "Change is measured"). Main thread only.
"""
import benchmark_items
from benchmark import Bench
from benchmark_items import INTRA_NODE, ItemError, nodes_of
from trimtab import measuring_again


class LiveBench(Bench):
    """A Bench beside the job's own state: it takes no memory before something is measured."""

    def __init__(self, config, groups, device, local_rank):
        """All ranks make theirs before the same step."""
        self.config, self.groups, self.device = config, groups, device
        self._nodes = nodes_of([row[0] for row in groups.gather_integers([local_rank])])
        self._specs, self._blocks = self.specs_of(config), {}

    def run(self, request):
        """On all ranks, with the same request."""
        return measuring_again.run(request, self._prepared, self._most)

    def _prepared(self, item):
        ranks = tuple(item.get("ranks", ()))
        if not ranks:
            return benchmark_items.once_of(item, self)
        if list(ranks) != sorted(set(ranks)) or ranks[0] < 0 or ranks[-1] >= self.groups.world_size:
            raise ItemError(f"ranks must be some of the job's {self.groups.world_size}, ascending, found {list(ranks)}")
        return benchmark_items.once_of(item, _Chosen(self, ranks))

    def _most(self, numbers):
        return [max(column) for column in zip(*self.groups.gather_integers([int(number) for number in numbers]))]


class _Chosen:
    """The Bench of an item that names its ranks: no group of others runs beside them."""

    def __init__(self, bench, ranks):
        self._bench, self._ranks = bench, ranks

    def __getattr__(self, name):
        return getattr(self._bench, name)

    def blocks(self, size, placement=INTRA_NODE):
        return [self._ranks]

    def block(self, size, placement=INTRA_NODE):
        return self._bench.groups.make_group(self._ranks)

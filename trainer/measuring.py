"""What has become doubtful, measured again between two steps of a running job: with the modules that are trained, in groups
of the job's own processes (docs/protocols.md, "Change is measured"). Main thread only.
"""
from benchmark import Bench
from benchmark_items import ItemError, nodes_of, once_of
from trimtab import measuring_again


class LiveBench(Bench):
    """A Bench beside the job's own state: it takes no memory before something is measured."""

    def __init__(self, config, groups, device, local_rank):
        """All ranks make theirs before the same step."""
        self.config, self.groups, self.device = config, groups, device
        self._nodes = nodes_of([row[0] for row in groups.gather_integers([local_rank])])
        self._specs = self.specs_of(config)
        self._ranks = ()  # Of the item: no groups of others run beside them. Empty: it names none.

    def run(self, request):
        """On all ranks, with the same request."""
        return measuring_again.run(request, self._prepared, self._most)

    def blocks(self, size, placement):
        return [self._ranks] if self._ranks else super().blocks(size, placement)

    def block(self, size, placement):
        """Asked for anew each time: the job may have given up groups that no plan has needed for long."""
        groups = [self.groups.make_group(members) for members in self.blocks(size, placement)]
        return next((group for group in groups if group is not None), None)

    def _prepared(self, item):
        self._ranks = tuple(item.get("ranks", ()))
        if list(self._ranks) != sorted(set(self._ranks) & set(range(self.groups.world_size))):
            raise ItemError(f"ranks must be some of the job's {self.groups.world_size}, ascending, found {list(self._ranks)}")
        return once_of(item, self)

    def _most(self, numbers):
        return [max(column) for column in zip(*self.groups.gather_integers([int(number) for number in numbers]))]

"""Reads pipelining.json as the client does, which hands it to torch.distributed.pipelining."""
import bisect
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

from meaning import PlanMeaning, operator_meaning  # noqa: E402
from trimtab import pipelining  # noqa: E402

KINDS = {"GPipe": "gpipe", "1F1B": "1f1b", "Interleaved1F1B": "interleaved"}


def read(text, world_size, shape):
    made = pipelining.parse(text, "pipelining.json")
    assert made.world_size == world_size and made.layers == shape.layers
    dp, stages = world_size // made.group_size, len(made.split_layers) + 1

    def stage_of(index):
        layer = shape.layer_of(index)
        if layer is None:
            return 0 if index < shape.before else stages - 1
        return bisect.bisect_right(made.split_layers, layer)

    operators = tuple(operator_meaning(stage_of(index), dp, 1, 1, "none", 1, True, shape.layer_of(index) in made.checkpoint_layers)
                      for index in range(shape.operators))
    devices = tuple(tuple(range(stage % made.group_size * dp, (stage % made.group_size + 1) * dp)) for stage in range(stages))
    return PlanMeaning(made.global_batch, made.global_batch // made.n_microbatches, KINDS[made.schedule], devices, operators, False, ())

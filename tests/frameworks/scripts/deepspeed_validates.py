"""What DeepSpeed's own configuration class says of files: each line of standard input is {"config": {...}, "world": 8}; each line of standard
output is "" or what it objects. DS_ACCELERATOR=cpu"""
import json
import sys


class Replicas:
    """Each rank is one."""

    def __init__(self, world):
        self._world = world

    def get_data_parallel_world_size(self):
        return self._world


def objection(case, config):
    try:
        config.DeepSpeedConfig(case["config"], mpu=Replicas(case["world"]))
    except (AssertionError, ValueError, config.DeepSpeedConfigError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main():
    said, sys.stdout = sys.stdout, sys.stderr
    from deepspeed.runtime import config

    config.dist.get_rank = lambda: 0  # As if its processes had met.
    for line in sys.stdin:
        print(json.dumps(objection(json.loads(line), config)), file=said, flush=True)


main()

"""Train a GPT under any plan, and change the plan between steps when the agent says so. One process is one rank.

Exit status: 0 done or stopped as asked, 2 bad input, 3 something outside failed (a rank gone, no memory, no disk).
"""
import compute_environment  # First: it sets what PyTorch reads when it is loaded.

import argparse
import os
import signal
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "client", "python"))

import config as model_config
import faults
import plan as plans
import rank_process
from errors import BadInput
from job import Settings, TrainingJob
from memory import PeakMemory
from trimtab import Client


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", required=True, help="the model's TOML file")
    parser.add_argument("--plan", default=os.environ.get("TRIMTAB_PLAN"), help="plan.json (or TRIMTAB_PLAN)")
    parser.add_argument("--steps", type=int, required=True, help="steps in all, those before a resumed snapshot included")
    parser.add_argument("--snapshots", default="", help="folder of snapshots; resumes from the newest whole one")
    parser.add_argument("--snapshot-every", type=int, default=0, metavar="STEPS")
    parser.add_argument("--memory-limit", type=int, default=0, metavar="BYTES", help="per rank; 0 is none")
    parser.add_argument("--log", default="", help="rank 0 appends one JSON line a step")
    parser.add_argument("--log-ranks", action="store_true", help="with --log: so does every rank, to PATH.RANK")
    rank_process.add_arguments(parser)
    return parser.parse_args(words)


class Termination:
    """SIGTERM ends training after the step; a second one at once."""

    def __init__(self):
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, number, frame):
        if self.asked:
            os._exit(128 + number)
        self.asked = True


def train(options, process):
    config = model_config.load(options.config)
    if not options.plan:
        raise BadInput("--plan is missing: give a plan.json, or set TRIMTAB_PLAN")
    environment = dict(os.environ)
    if process.retreat:
        plan = plans.parse(process.retreat.plan, config, options.world_size)
        environment["TRIMTAB_EPOCH"] = str(process.retreat.failed_epoch)  # Left only by saying so.
    else:
        plan = plans.load(options.plan, config, options.world_size)
    termination = Termination()
    groups = process.connect()
    settings = Settings(options.steps, options.memory_limit, options.snapshots, options.snapshot_every, options.log,
                        options.log_ranks, environment.get("TRIMTAB_LAUNCH", ""),
                        options.rank if options.local_rank is None else int(options.local_rank))
    job = TrainingJob(
        config, plan, settings, process=process, groups=groups, client=Client(environment, measures=True),
        memory=PeakMemory(process.device), faults=faults.from_environment(options.rank),
        terminated=lambda: termination.asked)
    first = job.prepare()
    if options.rank == 0:
        print(f"training {config.name} from step {first} to {options.steps} on {options.world_size} ranks", flush=True)
    steps = job.run()
    job.close()
    process.close()
    if options.rank == 0:
        print(f"done: {steps} steps", flush=True)


if __name__ == "__main__":
    given = arguments()
    rank_process.run_as_rank(given, lambda process: train(given, process))

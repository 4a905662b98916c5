"""What a tenant waits for the status while another freezes and unfreezes one large job again and again.

Usage, for the line of #8 in bench/results/hostile_round_3.md (programs are measured in turn, each in its own state):

    python3 bench/accounts/large_jobs.py --programs BEFORE/bin build/release/bin
"""

import argparse
import json
import pathlib
import tempfile
import threading
import time

from hostile_tenants import Coordinator, Waiting, small_job, write_tokens

LIMIT = 4 << 30
MODEL = '{"name":"operator","forward_ms":1.25},' * 165_000  # with its quotes escaped nearly all that a body may have


class Ordering(threading.Thread):
    """Freezes and unfreezes the job of mallory, as fast as it is answered."""

    def __init__(self, coordinator):
        super().__init__(daemon=True)
        self.coordinator = coordinator
        self.done = 0
        self.over = False

    def run(self):
        while not self.over:
            for order in ("freeze", "unfreeze"):
                status, body = self.coordinator.ask("mallory", "POST", f"/v1/jobs/large/{order}?why=load")
                assert status == 200, (status, body)
                self.done += 1


def waited(coordinator, seconds):
    waiting = Waiting(coordinator)
    waiting.start()
    time.sleep(seconds)
    waiting.over = True
    waiting.join()
    assert waiting.failures == 0
    return sorted(waiting.seconds)


def measured(programs, seconds):
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        write_tokens(directory / "tokens")
        coordinator = Coordinator(programs / "trimtab-coordinator", directory, LIMIT)
        assert coordinator.start() is not None
        job = small_job("large") | {"model_json": MODEL}
        status, body = coordinator.ask("mallory", "POST", "/v1/jobs", json.dumps({"job": job, "tune": True}))
        assert status == 201, body
        alone = waited(coordinator, seconds / 2)
        ordering = Ordering(coordinator)
        ordering.start()
        beside = waited(coordinator, seconds)
        ordering.over = True
        ordering.join()
        coordinator.stop()
    return alone, beside, ordering.done / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    print("| programs | orders a second | waits: median, ms | 99th of 100, ms | longest, ms | without orders: median, ms |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for programs in arguments.programs * arguments.rounds:
        alone, beside, rate = measured(programs, arguments.seconds)
        times = [beside[len(beside) // 2], beside[len(beside) * 99 // 100], beside[-1], alone[len(alone) // 2]]
        print(f"| {programs} | {rate:.0f} | " + " | ".join(f"{time * 1e3:.1f}" for time in times) + " |", flush=True)


if __name__ == "__main__":
    main()

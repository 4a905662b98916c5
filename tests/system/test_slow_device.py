"""A rank loses most of its core to somebody else while the job trains: the device is named, and gets less of the model."""

import os
import subprocess
import unittest

from installation import Installation, rank_of, rank_processes, replace_in


def bind(pid, core):
    """All threads of a process."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {core})


class SlowDevice(unittest.TestCase):
    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "two cores are needed")
    def test_a_device_that_gets_slower_is_named_and_gets_a_smaller_stage(self):
        with Installation() as trimtab:
            job = self.write_job(trimtab)
            trimtab.up()
            tune = trimtab.start_tune(job)
            self.assertEqual(tune.wait(timeout=180), 0, trimtab.all_logs())
            cores = sorted(os.sched_getaffinity(0))[:2]
            for rank in rank_processes(trimtab.directory):
                bind(rank, cores[rank_of(rank)])
            trimtab.wait_for("were probed under this plan", 90)
            before = self.operators(trimtab)
            others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
            try:
                for other in others:
                    bind(other.pid, cores[1])
                trimtab.wait_for("times as long", 120)
                trimtab.wait_for("device 1 of node n0 computes its part of a step at", 90)
                trimtab.wait_for("stale are", 60)
                trimtab.wait_for("tuning ends", 180, times=2)
            finally:
                for other in others:
                    other.kill()
                    other.wait()
            after = self.operators(trimtab)
            self.assertLess(after[1], before[1], "\n".join(trimtab.told()))
            print(f"operators by device: {before}, then {after}")

    def write_job(self, trimtab):
        job = trimtab.write_job(MEMORY="2GiB", AFTER="continue")
        # One plan alone divides the model unevenly: a pipeline.
        replace_in(job, {"data_parallel = true": "data_parallel = false", "measure_steps = 6": "measure_steps = 8"})
        replace_in(trimtab.directory / "gpt.toml",
                   {"layers = 2": "layers = 6", "hidden = 32": "hidden = 128", "sequence = 16": "sequence = 64"})
        return job

    def operators(self, trimtab):
        """How many each device has in the plan that the job runs."""
        counts = {0: 0, 1: 0}
        for stage in trimtab.get("/v1/jobs/tiny/report")["adopted"]["plan"]["stages"]:
            begin = stage["segments"][0]["operators"][0]
            end = stage["segments"][-1]["operators"][1]
            for device in stage["devices"]:
                counts[device] += end - begin
        return [counts[0], counts[1]]


if __name__ == "__main__":
    unittest.main()

"""A restarted job whose launches are Slurm jobs of two nodes, for real: tuned, and through the faults that Slurm adds."""
import json
import unittest

from cluster import JOB, Cluster, wait_until
from local_slurm import missing_programs
from test_restart import checkpoint_step


@unittest.skipIf(missing_programs(), missing_programs())
class SubmittedJob(unittest.TestCase):
    def run_to_end(self, cluster, tune, seconds):
        self.assertEqual(tune.wait(timeout=seconds), 0, cluster.logs())

    def test_trials_are_slurm_jobs_and_the_winner_is_one(self):
        with Cluster() as cluster:
            self.run_to_end(cluster, cluster.tune(cluster.write_job()), 600)
            report = cluster.report()
            self.assertEqual([trial["state"] in ("adopted", "rejected") for trial in report["trials"]], [True],
                             json.dumps(report["trials"]) + cluster.logs())
            self.assertGreater(report["trials"][0]["cost"]["switch_ms"], 0)
            names = [name for name in cluster.slurm_names() if name.startswith(f"trimtab.{JOB}.")]
            self.assertGreaterEqual(len([name for name in names if name.endswith(".trial")]), 2, names)
            self.assertGreaterEqual(len([name for name in names if name.endswith(".job")]), 2, names)
            self.assertEqual(cluster.slurm.jobs(), [], "Slurm jobs outlive the job")
            self.assertGreater(checkpoint_step(cluster.directory / "saved" / "state.pt"), 0)

    def test_a_cancelled_trial_and_a_drained_node_leave_the_job_as_it_was(self):
        with Cluster() as cluster:
            tune = cluster.tune(cluster.write_job(max_trials=3))
            wait_until(lambda: cluster.launches("trial"), "a trial in Slurm", 300)
            cluster.slurm.run("scancel", *map(str, cluster.launches("trial")))
            seen = cluster.wait_for(r"^trial 1 failed \(cancelled\): Slurm job \d+ was cancelled", 60)
            seen = cluster.wait_for("the job goes on with the incumbent, from its own checkpoint", 120, seen)

            wait_until(lambda: cluster.launches("trial"), "the second trial in Slurm", 200)
            cluster.slurm.run("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
            seen = cluster.wait_for(r"Slurm job \d+ waits: .*n1", 200, seen)
            seen = cluster.wait_for(r"^trial 2 failed \(not_started\): Slurm job \d+ did not start", 100, seen - 1)
            seen = cluster.wait_for(r"Slurm job \d+ waits: .*n1", 100, seen)
            cluster.slurm.run("scontrol", "update", "nodename=n1", "state=resume")
            cluster.wait_for("the job goes on with the incumbent, from its own checkpoint", 200, seen)
            self.run_to_end(cluster, tune, 900)
            # What Slurm did says nothing of the plan: it was tried again.
            trials = cluster.report()["trials"]
            self.assertEqual([trial["reason"] for trial in trials[:2]], ["cancelled", "not_started"])
            self.assertEqual(cluster.slurm.jobs(), [])

    def test_the_job_itself_survives_preemption_its_time_limit_and_a_killed_launcher(self):
        with Cluster() as cluster:
            # Watched alone, and trained on.
            tune = cluster.tune(cluster.write_job(mode='"observe"', deadline_s=40))
            seen = cluster.wait_for("launch 1 runs", 200)
            urgent = cluster.slurm.run("sbatch", "--parsable", "--partition=urgent", "--nodes=2", "--output=/dev/null", "--wrap",
                                       "srun sleep 3").strip()
            seen = cluster.wait_for(r"Slurm job \d+ was preempted after \d+ s; the job is submitted again", 60, seen)
            self.assertNotIn(int(urgent), cluster.launches())
            seen = cluster.wait_for("launch 2 runs", 100, seen)
            step = checkpoint_step(cluster.directory / "saved" / "state.pt")
            self.assertGreater(step, 0, "a preempted job saves its checkpoint")

            [running] = cluster.launches()
            cluster.slurm.run("scontrol", "update", f"jobid={running}", "timelimit=1")
            seen = cluster.wait_for(r"Slurm job \d+ reached its time limit of 60 s; the job is submitted again", 150, seen)
            seen = cluster.wait_for("launch 3 runs", 100, seen)
            self.assertGreater(checkpoint_step(cluster.directory / "saved" / "state.pt"), step)

            [running] = cluster.launches()
            cluster.kill_launcher()
            seen = cluster.wait_for("did not say how the launch did.*the job is submitted again", 60, seen)
            cluster.wait_for("launch 4 runs", 150, seen)
            self.assertNotIn(running, cluster.slurm.jobs())
            cluster.post(f"/v1/jobs/{JOB}/stop")
            tune.wait(timeout=120)
            wait_until(lambda: cluster.slurm.jobs() == [], "an empty queue", 60)


if __name__ == "__main__":
    unittest.main()

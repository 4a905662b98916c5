"""What the launcher makes of Slurm's states, and what it does when it is asked to end. Slurm's commands are fakes."""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "client", "python"))

from trimtab.slurm import Forgotten, JobView, NotSubmitted, Submission, batch_arguments, end_strays, parse, seconds

LINE = ("JobId=12 JobName=trimtab.gpt.a1b2.7.job JobState={state} Reason={reason} Requeue=0 Restarts={restarts} ExitCode={code} "
        "RunTime={run} TimeLimit={limit} PreemptTime={preempt} NodeList=n[0-1]")


def shown(state, reason="None", code="0:0", run="00:00:10", limit="00:30:00", preempt="None", restarts=0):
    return JobView.parse(LINE.format(state=state, reason=reason, code=code, run=run, limit=limit, preempt=preempt, restarts=restarts))


class FakeSlurm:
    def __init__(self, *views):
        self.views, self.cancelled, self.submitted = list(views), [], []

    def submit(self, arguments):
        self.submitted.append(arguments)
        return 12

    def show(self, job):
        view = self.views.pop(0) if len(self.views) > 1 else self.views[0]
        if isinstance(view, Exception):
            raise view
        return view

    def cancel(self, job):
        self.cancelled.append(job)
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class SubmissionStates(unittest.TestCase):
    def submission(self, *views, queue_s=100.0, lead=120):
        self.slurm, self.told, self.clock = FakeSlurm(*views), [], Clock()
        one = Submission(self.slurm, lambda state, message: self.told.append((state, message)), lead, queue_s, self.clock)
        one.submit(["job.sbatch"])
        return one

    def last_after(self, *views, **settings):
        one = self.submission(*views, **settings)
        for _ in views:
            one.look()
        self.assertTrue(one.ended)
        return self.told[-1]

    def test_each_end_has_its_state(self):
        for view, state in (
            (shown("COMPLETED"), "completed"),
            (shown("FAILED", "NonZeroExitCode", "1:0"), "failed"),
            (shown("OUT_OF_MEMORY", "OutOfMemory", "0:125"), "out_of_memory"),
            (shown("PREEMPTED", "None", "0:15"), "preempted"),
            (shown("COMPLETED", preempt="2026-01-01T00:00:00"), "preempted"),
            (shown("TIMEOUT", "TimeLimit"), "walltime"),
            (shown("NODE_FAIL", "NodeDown"), "node_failed"),
            (shown("BOOT_FAIL"), "node_failed"),
            (shown("CANCELLED", "None", "0:15"), "cancelled"),
            (shown("DEADLINE"), "not_started"),
        ):
            with self.subTest(view.state):
                self.assertEqual(self.last_after(shown("RUNNING"), view)[0], state)

    def test_a_clean_end_after_the_warning_is_the_time_limit_s(self):
        self.assertEqual(self.last_after(shown("RUNNING"), shown("COMPLETED", run="00:28:30"))[0], "walltime")
        self.assertEqual(self.last_after(shown("RUNNING"), shown("FAILED", code="143:0", run="00:28:30"))[0], "walltime")
        # A crash stays one, and without a warning or a limit nothing was asked to end.
        self.assertEqual(self.last_after(shown("RUNNING"), shown("FAILED", code="1:0", run="00:28:30"))[0], "failed")
        self.assertEqual(self.last_after(shown("RUNNING"), shown("COMPLETED", run="00:28:30"), lead=0)[0], "completed")
        self.assertEqual(self.last_after(shown("RUNNING"), shown("COMPLETED", limit="UNLIMITED"))[0], "completed")

    def test_a_waiting_job_says_why_and_a_trial_s_is_taken_back_in_time(self):
        one = self.submission(shown("PENDING", "Resources"))
        one.look()
        self.assertEqual(self.told, [("queued", "Slurm job 12 waits: Resources")])
        self.clock.now = 101
        one.look()
        self.assertEqual(self.slurm.cancelled, [12])
        self.assertFalse(one.ended)
        self.slurm.views = [shown("CANCELLED")]
        one.look()
        self.assertEqual(self.told[-1], ("not_started", "Slurm job 12 did not start within 100 s: Resources"))

    def test_the_job_itself_waits_for_as_long_as_it_must(self):
        one = self.submission(shown("PENDING", "Priority"), queue_s=None)
        self.clock.now = 1e6
        one.look()
        self.assertEqual(self.slurm.cancelled, [])

    def test_a_requeued_job_is_cancelled_and_told_as_such(self):
        for views in ((shown("RUNNING"), shown("PENDING", "BeginTime", restarts=1)), (shown("PENDING", restarts=1),)):
            one = self.submission(*views)
            for _ in views:
                one.look()
            self.assertEqual(self.slurm.cancelled, [12])
            self.slurm.views = [shown("CANCELLED")]
            one.look()
            self.assertEqual(self.told[-1][0], "requeued")

    def test_asked_to_end_a_slurm_job_is_cancelled_unless_it_has_a_checkpoint_to_save(self):
        for state, queue_s, cancelled in (("PENDING", None, [12]), ("PENDING", 100.0, [12]), ("RUNNING", 100.0, [12]),
                                          ("RUNNING", None, [])):
            one = self.submission(shown(state), queue_s=queue_s)
            one.look()
            one.take_back()
            one.take_back()
            self.assertEqual(self.slurm.cancelled, cancelled, (state, queue_s))

    def test_a_controller_that_is_away_is_waited_for_and_a_forgotten_job_is_lost(self):
        one = self.submission(None)
        one.look()
        self.assertEqual(self.told, [])
        self.slurm.views = [Forgotten("12")]
        one.look()
        self.assertEqual(self.told[-1][0], "lost")

    def test_what_slurm_does_not_take_is_told_in_its_words(self):
        slurm, told = FakeSlurm(shown("PENDING")), []
        slurm.submit = lambda arguments: (_ for _ in ()).throw(NotSubmitted("sbatch: error: invalid partition specified: x"))
        one = Submission(slurm, lambda *state: told.append(state), 120, None)
        one.submit([])
        self.assertTrue(one.ended)
        self.assertEqual(told, [("not_submitted", "sbatch: error: invalid partition specified: x")])


class Strays(unittest.TestCase):
    def test_what_an_earlier_launcher_left_is_gone_before_anything_is_submitted(self):
        slurm, answers = FakeSlurm(shown("RUNNING")), [None, [3, 4], [4], []]
        slurm.named = lambda prefix: answers.pop(0)
        end_strays(slurm, "trimtab.gpt.", Clock(), lambda _: None)
        self.assertEqual(slurm.cancelled, [3, 4, 4])

    def test_one_that_does_not_end_is_told(self):
        slurm, clock = FakeSlurm(shown("RUNNING")), Clock()
        slurm.named = lambda prefix: [3]

        def sleep(time_s):
            clock.now += time_s
        with self.assertRaisesRegex(NotSubmitted, "Slurm job 3 of an earlier launch does not end"):
            end_strays(slurm, "trimtab.gpt.", clock, sleep)


class Arguments(unittest.TestCase):
    def test_nodes_tasks_and_the_warning_are_the_launch_s(self):
        given = parse(["--nodes", "n0,n1", "--ranks-per-node", "4", "--sbatch=--partition=gpu", "job.sbatch"])
        made = batch_arguments(given, "trimtab.gpt.a1b2.7.job")
        self.assertEqual(made[-2:], ["--partition=gpu", "job.sbatch"])
        for wanted in ("--nodelist=n0,n1", "--nodes=2", "--ntasks-per-node=4", "--signal=TERM@120", "--no-requeue", "--export=ALL"):
            self.assertIn(wanted, made)
        self.assertFalse([one for one in batch_arguments(parse(["--nodes", "n0", "--ranks-per-node", "1", "--lead", "0", "x"]), "j")
                          if one.startswith("--signal")])

    def test_slurm_s_times(self):
        self.assertEqual(seconds("1-02:03:04"), 93784)
        self.assertEqual(seconds("00:30:00"), 1800)
        self.assertEqual(seconds("30:00"), 1800)
        self.assertIsNone(seconds("UNLIMITED"))


if __name__ == "__main__":
    unittest.main()

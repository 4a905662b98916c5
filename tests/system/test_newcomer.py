"""What a newcomer's own script meets: it is silent, it crashes, it does not save when it is asked to end, it is brought down."""

import itertools
import json
import pathlib
import subprocess
import unittest

from installation import ROOT, TRIMTAB, Installation, wait_until

# Trains by itself and knows nothing of Trimtab. It writes its pid, works for a while without a word, and ends well. It takes a tenth of
# a core: less than 0.02 is no work to an agent.
SILENT = """
import os, sys, time
directory = sys.argv[1]
with open(os.path.join(directory, "starts"), "a") as file:
    file.write(f"{os.getpid()}\\n")
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    worked = time.process_time()
    while time.process_time() - worked < 0.01:
        sum(range(1000))
    time.sleep(0.09)
"""

CRASHING = """
import sys, time
def lose_the_data():
    raise ValueError("no such shard: 7")
print("begins", flush=True)
time.sleep(0.6)  # --follow looks four times a second, and a launch that ends between two looks is not shown.
lose_the_data()
"""

# A user's job in a few lines: a checkpoint each 40 steps, no handler for SIGTERM. It tells what the job's own launches train.
SAVING = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
import trimtab
directory, checkpoint, steps, plan, resumes = sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5], sys.argv[6] == "resumes"
own, rank = not os.environ.get("TRIMTAB_VARIANT"), int(os.environ["TRIMTAB_RANK"])
path = os.path.join(checkpoint, "state.json")
first = json.load(open(path))["step"] if resumes and os.path.exists(path) else 0
slow = json.load(open(plan))["microbatch"] == 1
client = trimtab.connect(first)
for step in range(first, steps):
    begin = time.perf_counter_ns()
    time.sleep(0.06 if slow else 0.02)
    client.step(step, wall_ns=time.perf_counter_ns() - begin, loss=1.0)
    if not own or rank != 0:
        continue
    with open(os.path.join(directory, "steps"), "a") as file:
        file.write(f"{os.getpid()} {step}\\n")
    if (step + 1) % 40 == 0:
        os.makedirs(checkpoint, exist_ok=True)
        with open(path + ".new", "w") as file:
            json.dump({"step": step + 1}, file)
        os.replace(path + ".new", path)
"""


# Its model is known and its operators are measured at once, by made-up figures: what follows is the test.
JOB = """schema = "trimtab.job/1"
name = "{name}"
mode = "auto"
world_size = 2
steps = {steps}
{keys}
working_directory = "{root}"

[commands]
describe = ["/usr/bin/python3", "tests/system/soak/job.py", "describe"]
benchmark = ["/usr/bin/python3", "tests/system/soak/job.py", "benchmark", "--requests", "{{requests}}"]
train = {train}

[trials]
warmup_steps = 2
measure_steps = 8
blocks = 2
candidates = 1
max_trials = 1
overhead = {overhead}
deadline_s = {deadline}
"""


def write_job(trimtab, train, name="tiny", keys="", deadline=60, steps=100000, overhead=1.0):
    """Path of a job.toml whose ranks run `train`."""
    path = trimtab.directory / f"{name}.toml"
    path.write_text(JOB.format(name=name, keys=keys, root=ROOT, train=json.dumps(train), deadline=deadline, steps=steps,
                               overhead=overhead))
    return path


class Newcomer(unittest.TestCase):
    def setUp(self):
        self.trimtab = self.enterContext(Installation())

    def script(self, text):
        path = self.trimtab.directory / "train.py"
        path.write_text(text)
        return path

    def starts(self):
        path = self.trimtab.directory / "starts"
        return path.read_text().split() if path.exists() else []

    def jobs(self):
        return json.loads(self.trimtab.run("status", "--state", self.trimtab.state, "--json").stdout)["jobs"]

    def test_a_silent_script_that_works_is_let_be_and_has_succeeded(self):
        trimtab = self.trimtab
        train = ["/usr/bin/python3", str(self.script(SILENT)), str(trimtab.directory), "20"]
        job = write_job(trimtab, train, deadline=6)
        tune = trimtab.start_tune(job)
        self.assertEqual(tune.wait(timeout=120), 0, trimtab.tune_log() + trimtab.all_logs())
        self.assertEqual(len(self.starts()), 2, trimtab.tune_log())
        self.assertIn("have told of no step", trimtab.tune_log())
        self.assertIn("told of no step: nothing was measured or tuned", trimtab.tune_log())
        self.assertEqual(trimtab.report()["phase"], "finished")

    def test_a_crash_shows_the_ranks_own_lines_once_and_where_its_log_is(self):
        trimtab = self.trimtab
        job = write_job(trimtab, ["/usr/bin/python3", str(self.script(CRASHING))])
        tune = trimtab.start_tune(job, "--follow")
        self.assertNotEqual(tune.wait(timeout=120), 0, trimtab.tune_log())
        said = trimtab.tune_log()
        self.assertEqual(said.count('\n  ValueError: no such shard: 7'), 1, said)
        self.assertIn('\n    File "', said)
        log = trimtab.state / "agents" / "n0" / "jobs" / "tiny"
        self.assertRegex(said, rf"\(its log: n0:{log}/rank-[01]\.log\)")
        self.assertIn("| begins\n", said)

    def saving(self, resumes, keys="", **how):
        """job.toml of the script that saves."""
        trimtab = self.trimtab
        client = pathlib.Path(__file__).parents[2] / "client" / "python"
        train = ["/usr/bin/python3", str(self.script(SAVING)), str(client), str(trimtab.directory), "{checkpoint}", "{steps}", "{plan}", resumes]
        return write_job(trimtab, train, keys=f'{keys}\ndelivery = "restart"\ncheckpoint = "{trimtab.directory}/saved"', **how)

    def restarted(self, resumes):
        """[the steps of each of the job's own launches], once tuning is over."""
        trimtab = self.trimtab
        path = self.saving(resumes)
        tune = trimtab.start_tune(path, "--allow-restarts")
        self.assertEqual(tune.wait(timeout=200), 0, trimtab.tune_log() + trimtab.all_logs())
        lines = [line.split() for line in (trimtab.directory / "steps").read_text().splitlines()]
        return [[int(step) for _, step in launch] for _, launch in itertools.groupby(lines, lambda line: line[0])]

    def test_a_script_without_a_handler_for_sigterm_is_stopped_after_its_checkpoint_and_goes_on_from_there(self):
        launches = self.restarted("resumes")
        said = self.trimtab.tune_log()
        self.assertEqual(len(self.trimtab.report()["trials"]), 1, said)
        self.assertIn("At risk until it has gone on from there once: all", said)
        self.assertEqual(len(launches), 2, said)
        # From its latest checkpoint: what it trained while that settled is trained again.
        self.assertEqual(launches[1][0], (launches[0][-1] + 1) // 40 * 40, said)

    def test_a_script_that_does_not_resume_is_stopped_once_and_runs_on(self):
        launches = self.restarted("begins anew")
        said = self.trimtab.tune_log()
        self.assertIn("the job does not go on from its checkpoint in", said)
        self.assertEqual([trial["reason"] for trial in self.trimtab.report()["trials"]], ["not resumed"], said)
        self.assertEqual(len(launches), 2, said)
        self.assertEqual(launches[1][0], 0)
        self.assertEqual(self.jobs()[0]["phase"], "training")

    def test_without_an_initial_plan_and_time_for_trials_a_ddp_job_runs_to_its_end_and_its_better_plan_is_named(self):
        trimtab = self.trimtab
        tune = trimtab.start_tune(self.saving("resumes", 'target = "ddp"\nallow_restarts = true', steps=300, overhead=0.02))
        self.assertEqual(tune.wait(timeout=200), 0, trimtab.tune_log() + trimtab.all_logs())
        said = trimtab.tune_log()
        self.assertEqual(trimtab.report()["trials"], [], said)
        self.assertRegex(said, r"A trial of it needs a job of \d+ steps \(it has 300\)")
        wait_until(lambda: self.jobs()[0]["phase"] == "finished", "the job's end", 60)
        steps = [int(line.split()[1]) for line in (trimtab.directory / "steps").read_text().splitlines()]
        self.assertEqual(steps, list(range(300)), said)

    def test_init_writes_a_job_file_that_doctor_and_tune_take_as_it_is(self):
        trimtab = self.trimtab
        job = trimtab.directory / "made.toml"
        said = trimtab.run("init", "--out", job, "--", "/usr/bin/python3", self.script(SILENT), trimtab.directory, "6").stdout
        self.assertIn(f"wrote {job}", said)
        tune = trimtab.start_tune(job, "--keep-up")
        self.assertEqual(tune.wait(timeout=120), 0, trimtab.tune_log() + trimtab.all_logs())
        self.assertEqual(len(self.starts()), 1)
        self.assertEqual(trimtab.report()["phase"], "finished")
        self.assertEqual(self.jobs()[0]["phase"], "finished", "the daemons are still up")

    def test_what_down_ended_is_over_and_two_jobs_share_no_device(self):
        trimtab = self.trimtab
        train = ["/usr/bin/python3", str(self.script(SILENT)), str(trimtab.directory), "1000"]
        old = write_job(trimtab, train)
        tune = trimtab.start_tune(old, "--keep-up")
        wait_until(lambda: len(self.starts()) == 2, "the old job's ranks", 120)
        # Beside it there is no room for another, which says whom it waits for.
        waiting = self.second(write_job(trimtab, train, "other"))
        wait_until(lambda: "others are of tiny" in (trimtab.directory / "second.log").read_text(), "the wait's reason", 60)
        self.assertEqual(len(self.starts()), 2)
        waiting.kill()
        waiting.wait(timeout=30)
        said = trimtab.run("down", "--state", trimtab.state).stdout
        self.assertIn("ended the job tiny: it is over", said)
        tune.kill()
        tune.wait(timeout=60)
        before = self.starts()
        trimtab.run("up", "--state", trimtab.state, "--devices", "2", "--port", "0")
        phases = {job["name"]: job["phase"] for job in self.jobs()}
        self.assertEqual(phases, {"tiny": "stopped", "other": "stopped"})
        self.assertEqual(self.starts(), before)

    def second(self, job):
        with open(self.trimtab.directory / "second.log", "w") as log:
            return subprocess.Popen([str(TRIMTAB), "tune", "--job", str(job), "--state", str(self.trimtab.state),
                                     "--out", str(self.trimtab.directory / "second"), "--keep-up"],
                                    stdout=log, stderr=log, cwd=ROOT, start_new_session=True)


if __name__ == "__main__":
    unittest.main()

"""A real Prometheus scrapes both daemons while a job is tuned: pages as promtool wants them, and each query of the dashboard
and the alerts evaluated. Needs prometheus and promtool."""

import json
import pathlib
import shutil
import subprocess
import time
import unittest
import urllib.parse
import urllib.request

import yaml

from installation import BUILD, ROOT, Installation, free_port, wait_until
from metric_pages import ALERTS, DASHBOARD, dashboard_queries

# Panels that need a GPU or NCCL.
EMPTY_HERE = {"Power", "SM clock", "Throttled", "Temperature", "Memory of the GPUs", "Uncorrected ECC errors",
              "Waiting for later ranks", "Collectives, median", "Late ranks"}
TO_TUNE = 300


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode()


@unittest.skipUnless(shutil.which("prometheus") and shutil.which("promtool"), "needs prometheus")
class Scraped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.trimtab = Installation()
        cls.addClassCleanup(cls.trimtab.__exit__, None, None, None)
        directory = cls.directory = cls.trimtab.directory
        cls.start("coordinator", BUILD / "bin/trimtab-coordinator", "--listen", "127.0.0.1:0", "--port-file", directory / "port",
                  "--state", directory / "c")
        wait_until(lambda: (directory / "port").exists(), "the coordinator's port", 20)
        cls.coordinator, cls.agent, cls.prometheus = int((directory / "port").read_text()), free_port(), free_port()
        cls.start("agent", BUILD / "bin/trimtab-agent", "--coordinator", f"127.0.0.1:{cls.coordinator}", "--state", directory / "a",
                  "--socket", directory / "a.sock", "--metrics-port", cls.agent, "--sample-period", "1s", "--devices", 2,
                  "--memory", "2GiB", "--stop-ranks-on-exit")
        cls.configure()
        cls.start("prometheus", shutil.which("prometheus"), f"--config.file={directory}/prometheus.yml",
                  f"--storage.tsdb.path={directory}/tsdb", f"--web.listen-address=127.0.0.1:{cls.prometheus}")
        wait_until(cls.scrapes, "scrapes of both daemons", 60)

    @classmethod
    def configure(cls):
        """The packaged configuration, with this machine's addresses and without TLS."""
        settings = yaml.safe_load((ROOT / "packaging/prometheus/trimtab.yml").read_text())
        for job, port in zip(settings["scrape_configs"], (cls.coordinator, cls.agent)):
            for key in ("scheme", "tls_config", "authorization"):
                job.pop(key, None)
            job["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
        settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        shutil.copy(ALERTS, cls.directory)
        (cls.directory / "prometheus.yml").write_text(yaml.safe_dump(settings))

    @classmethod
    def start(cls, name, *words):
        with open(cls.directory / f"{name}.log", "w") as log:
            process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.terminate)
        return process

    @classmethod
    def query(cls, expression):
        text = expression.replace("$job", ".+").replace("$__rate_interval", "10s")
        answer = json.loads(get(cls.prometheus, "/api/v1/query?" + urllib.parse.urlencode({"query": text})))
        assert answer["status"] == "success", (text, answer)
        return answer["data"]["result"]

    @classmethod
    def scrapes(cls):
        try:
            return len(cls.query("up == 1")) == 2
        except OSError:
            return False

    def check_page(self, port):
        text = get(port, "/metrics")
        judged = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
        self.assertEqual((judged.returncode, judged.stdout + judged.stderr), (0, ""))
        return text

    def test_a_job_as_prometheus_sees_it(self):
        job = self.trimtab.write_job(MEMORY="1GiB")
        with open(self.directory / "tune.log", "w") as log:
            tune = subprocess.Popen([str(BUILD / "bin/trimtab"), "tune", "--job", str(job), "--coordinator",
                                     f"127.0.0.1:{self.coordinator}", "--out", str(self.directory / "out")],
                                    stdout=log, stderr=log, cwd=ROOT)
        self.addCleanup(tune.wait)
        self.addCleanup(tune.kill)
        queries = dashboard_queries()
        seen, ranks_seen = set(), False
        end = time.monotonic() + TO_TUNE
        while tune.poll() is None and time.monotonic() < end:
            seen |= {one for one in queries if one not in seen and self.query(one[1])}
            if not ranks_seen and self.query("trimtab_rank_step_duration_seconds_count > 0"):
                ranks_seen = True
                self.check_page(self.agent)
                self.check_page(self.coordinator)
                (slow,) = self.query('histogram_quantile(0.5, sum by (le) (trimtab_rank_step_duration_seconds_bucket))')
                self.assertTrue(0 < float(slow["value"][1]) < 10, slow)
            time.sleep(1)
        self.assertEqual(tune.poll(), 0, (self.directory / "tune.log").read_text()[-3000:])
        self.assertTrue(ranks_seen)

        with self.subTest("every query of the dashboard has an answer, but for what this machine has not"):
            missing = {query for query in queries if query not in seen}
            self.assertEqual({title for title, _ in missing} - EMPTY_HERE, set())
        with self.subTest("the label `job` is the training job's"):
            self.assertEqual({one["metric"]["job"] for one in self.query("last_over_time(trimtab_job_step_seconds[5m])")}, {"tiny"})
            self.assertEqual({one["metric"]["job"] for one in self.query("trimtab_agent_records_total")}, {"trimtab-agent"})
        with self.subTest("counters count"):
            (batches,) = self.query("max_over_time(trimtab_cost_batches_total{outcome='stored'}[5m])")
            (commits,) = self.query("max_over_time(trimtab_cost_batch_commit_seconds_count[5m])")
            self.assertGreater(float(batches["value"][1]), 0)
            self.assertGreaterEqual(float(commits["value"][1]), float(batches["value"][1]))
            (searches,) = self.query("max_over_time(trimtab_search_seconds_count[5m])")
            self.assertGreater(float(searches["value"][1]), 0)
        with self.subTest("every alert can be evaluated"):
            (group,) = json.loads(get(self.prometheus, "/api/v1/rules"))["data"]["groups"]
            self.assertEqual({rule["health"] for rule in group["rules"]}, {"ok"}, group)
            firing = [rule["name"] for rule in group["rules"] if rule["state"] == "firing"]
            self.assertEqual(firing, [])


class Checked(unittest.TestCase):
    @unittest.skipUnless(shutil.which("promtool"), "needs promtool")
    def test_promtool_accepts_what_is_packaged(self):
        for words in (("rules", ALERTS), ("config", "--syntax-only", ROOT / "packaging/prometheus/trimtab.yml")):
            done = subprocess.run(["promtool", "check", *map(str, words)], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_panels_have_names_of_their_own(self):
        titles = [panel["title"] for panel in json.loads(pathlib.Path(DASHBOARD).read_text())["panels"]]
        self.assertEqual(len(titles), len(set(titles)))


if __name__ == "__main__":
    unittest.main()

"""A real Prometheus scrapes both daemons: while a job is tuned, pages as promtool wants them, and each query of the dashboard
and the alerts evaluated; and under mutual TLS with a token, by the configuration as it is shipped. Needs prometheus and promtool."""

import json
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import yaml

from installation import BUILD, ROOT, Installation, free_port, wait_until
from metric_pages import ALERTS, DASHBOARD, dashboard_queries
from test_security import Cluster

# Panels that need a GPU or NCCL.
EMPTY_HERE = {"Power", "SM clock", "Throttled", "Temperature", "Memory of the GPUs", "Uncorrected ECC errors",
              "Waiting for later ranks", "Collectives, median", "Late ranks"}
TO_TUNE = 300
SHIPPED = ROOT / "packaging/prometheus/trimtab.yml"


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode()


class Prometheus:
    """One that reads prometheus.yml in the class's `directory`, where its log goes too."""

    @classmethod
    def start(cls, name, *words):
        with open(cls.directory / f"{name}.log", "w") as log:
            process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.terminate)
        return process

    @classmethod
    def start_prometheus(cls):
        cls.prometheus = free_port()
        cls.start("prometheus", shutil.which("prometheus"), f"--config.file={cls.directory}/prometheus.yml",
                  f"--storage.tsdb.path={cls.directory}/tsdb", f"--web.listen-address=127.0.0.1:{cls.prometheus}")

    @classmethod
    def query(cls, expression):
        text = expression.replace("$job", ".+").replace("$__rate_interval", "10s")
        answer = json.loads(get(cls.prometheus, "/api/v1/query?" + urllib.parse.urlencode({"query": text})))
        assert answer["status"] == "success", (text, answer)
        return answer["data"]["result"]

    @classmethod
    def scrapes(cls, count=2):
        try:
            return len(cls.query("up == 1")) == count
        except OSError:
            return False


@unittest.skipUnless(shutil.which("prometheus") and shutil.which("promtool"), "needs prometheus")
class Scraped(Prometheus, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.trimtab = Installation()
        cls.addClassCleanup(cls.trimtab.__exit__, None, None, None)
        directory = cls.directory = cls.trimtab.directory
        cls.start("coordinator", BUILD / "bin/trimtab-coordinator", "--listen", "127.0.0.1:0", "--port-file", directory / "port",
                  "--state", directory / "c")
        wait_until(lambda: (directory / "port").exists(), "the coordinator's port", 20)
        cls.coordinator, cls.agent = int((directory / "port").read_text()), free_port()
        cls.start("agent", BUILD / "bin/trimtab-agent", "--coordinator", f"127.0.0.1:{cls.coordinator}", "--state", directory / "a",
                  "--socket", directory / "a.sock", "--metrics-port", cls.agent, "--sample-period", "1s", "--devices", 2,
                  "--memory", "2GiB", "--stop-ranks-on-exit")
        cls.configure()
        cls.start_prometheus()
        wait_until(cls.scrapes, "scrapes of both daemons", 60)

    @classmethod
    def configure(cls):
        """The packaged configuration, with this machine's addresses and without TLS."""
        settings = yaml.safe_load(SHIPPED.read_text())
        for job, port in zip(settings["scrape_configs"], (cls.coordinator, cls.agent)):
            for key in ("scheme", "tls_config", "authorization"):
                job.pop(key, None)
            job["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
        settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        shutil.copy(ALERTS, cls.directory)
        (cls.directory / "prometheus.yml").write_text(yaml.safe_dump(settings))

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


@unittest.skipUnless(shutil.which("prometheus"), "needs prometheus")
class ScrapedUnderTls(Prometheus, unittest.TestCase):
    """The configuration as it is shipped, with the files that its head says how to make; only the targets are this machine's."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster().__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.directory = cls.cluster.directory / "prometheus"
        cls.directory.mkdir()
        cls.follow_the_head()
        cls.cluster.issue("node", "n0", "--host", "localhost")
        cls.agent = free_port()
        cls.cluster.start_agent("n0", "n0", cls.agent)
        wait_until(lambda: cls.cluster.nodes() == ["n0"], "the agent's joining", 30)
        cls.configure()
        cls.start_prometheus()
        wait_until(cls.scrapes, "scrapes of both daemons", 60)

    @classmethod
    def follow_the_head(cls):
        head = SHIPPED.read_text().split("rule_files:")[0].replace("\n#", "")
        commands = re.findall(r"`trimtab ([^`]+)`", head)
        assert len(commands) == 2, commands
        places = {"CA": cls.cluster.path("ca"), "TOKENS": cls.cluster.path("tokens"), "HERE": str(cls.directory)}
        for command in commands:
            words = shlex.split(re.sub(r"\b(CA|TOKENS|HERE)\b", lambda found: places[found[0]], command))
            cls.cluster.run(*words)

    @classmethod
    def configure(cls):
        settings = yaml.safe_load(SHIPPED.read_text())
        jobs = settings["scrape_configs"]
        for job, port in zip(jobs, (cls.cluster.port, cls.agent)):
            job["static_configs"] = [{"targets": [f"localhost:{port}"]}]
        without_token = {**jobs[0], "job_name": "without-token"}
        del without_token["authorization"]
        jobs.append(without_token)
        for number, job in enumerate(jobs[:2]):
            tls = {"ca_file": job["tls_config"]["ca_file"]}
            jobs.append({**job, "job_name": f"without-certificate-{number}", "tls_config": tls})
        settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        shutil.copy(ALERTS, cls.directory)
        (cls.directory / "prometheus.yml").write_text(yaml.safe_dump(settings))

    def targets(self):
        found = json.loads(get(self.prometheus, "/api/v1/targets"))["data"]["activeTargets"]
        return {one["scrapePool"]: one for one in found}

    def test_both_daemons_are_scraped_as_shipped(self):
        targets = self.targets()
        for name in ("trimtab-coordinator", "trimtab-agent"):
            self.assertEqual((targets[name]["health"], targets[name]["lastError"]), ("up", ""))
            self.assertTrue(targets[name]["scrapeUrl"].startswith("https://"), targets[name])
        (connected,) = wait_until(lambda: self.query("trimtab_nodes{state='connected'} == 1"), "the coordinator's own figure", 20)
        self.assertEqual(connected["metric"]["job"], "trimtab-coordinator")
        (linked,) = self.query("trimtab_agent_coordinator_connected")
        self.assertEqual((linked["value"][1], linked["metric"]["node"]), ("1", "localhost"))

    def test_without_the_token_or_the_certificate_nothing_is_told(self):
        wait_until(lambda: all(one["lastError"] for name, one in self.targets().items() if name.startswith("without")),
                   "answers to who may not ask", 30)
        targets = self.targets()
        self.assertIn("401", targets["without-token"]["lastError"])
        for number in range(2):
            self.assertIn("tls", targets[f"without-certificate-{number}"]["lastError"])
        self.assertEqual(self.query('{__name__=~"trimtab_.+", job=~"without.*"}'), [])


class Checked(unittest.TestCase):
    @unittest.skipUnless(shutil.which("promtool"), "needs promtool")
    def test_promtool_accepts_what_is_packaged(self):
        for words in (("rules", ALERTS), ("config", "--syntax-only", SHIPPED)):
            done = subprocess.run(["promtool", "check", *map(str, words)], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless(shutil.which("promtool"), "needs promtool")
    def test_alerts_of_certificates_fire_in_time_and_for_those_alone_that_end_soon(self):
        left = {("agent", "certificate", "n0"): 13, ("agent", "certificate", "n1"): 15, ("coordinator", "certificate", "c0"): 1,
                ("agent", "authority", "n0"): 29, ("agent", "authority", "n1"): 31, ("coordinator", "authority", "c0"): 29}
        series = [{"series": f'trimtab_{daemon}_{what}_expires_seconds{{instance="{place}"}}', "values": f"{days * 86400}x200"}
                  for (daemon, what, place), days in left.items()]
        firing = [{"expr": f'count by (instance) (ALERTS{{alertname="Trimtab{what}Ends", alertstate="firing"}})', "eval_time": "90m",
                   "exp_samples": [{"labels": f'{{instance="{place}"}}', "value": 1} for place in ("c0", "n0")]}
                  for what in ("Certificate", "Authority")]
        tests = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m",
                 "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": firing}]}
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            yaml.safe_dump(tests, file)
            file.flush()
            done = subprocess.run(["promtool", "test", "rules", file.name], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_panels_have_names_of_their_own(self):
        titles = [panel["title"] for panel in json.loads(pathlib.Path(DASHBOARD).read_text())["panels"]]
        self.assertEqual(len(titles), len(set(titles)))


if __name__ == "__main__":
    unittest.main()

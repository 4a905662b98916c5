"""Both daemons post to an OpenTelemetry collector what their pages of metrics show."""

import http.server
import json
import pathlib
import re
import subprocess
import tempfile
import threading
import unittest
import urllib.request

from installation import BUILD, free_port, wait_until
from metric_pages import exported

KINDS = {"gauge": "gauge", "sum": "counter", "histogram": "histogram"}


class Collector(http.server.BaseHTTPRequestHandler):
    """Keeps the latest document of each service."""

    documents = {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        known = self.path == "/v1/metrics" and self.headers["Content-Type"] == "application/json"
        if known:
            document = json.loads(body)["resourceMetrics"][0]
            self.documents[resource(document)["service.name"]] = document
        self.send_response(200 if known else 404)
        self.end_headers()

    def log_message(self, *words):
        pass


def resource(document):
    return {one["key"]: one["value"]["stringValue"] for one in document["resource"]["attributes"]}


def kinds(document):
    """Names of a document to the types that a page gives them."""
    metrics = document["scopeMetrics"][0]["metrics"]
    return {one["name"]: next(KINDS[key] for key in one if key in KINDS) for one in metrics}


def points(document, name):
    metrics = document["scopeMetrics"][0]["metrics"]
    return next(one[key]["dataPoints"] for one in metrics if one["name"] == name for key in one if key in KINDS)


def with_samples(page):
    return {name: kind for name, kind in exported(page).items() if re.search(rf"^{name}(_bucket)?[{{ ]", page, re.M)}


def page(port):
    """Empty where nothing listens yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return ""


class Posted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        cls.addClassCleanup(collector.server_close)
        cls.addClassCleanup(collector.shutdown)
        place = tempfile.TemporaryDirectory(prefix="trimtab-otlp-")
        cls.addClassCleanup(place.cleanup)
        cls.directory = pathlib.Path(place.name)
        otlp = "--otlp-endpoint", f"http://127.0.0.1:{collector.server_port}", "--otlp-period", "1s"
        cls.start("coordinator", "--listen", "127.0.0.1:0", "--port-file", cls.directory / "port",
                  "--state", cls.directory / "c", *otlp)
        wait_until(lambda: (cls.directory / "port").exists(), "the coordinator's port", 20)
        cls.port, cls.agent_port = int((cls.directory / "port").read_text()), free_port()
        cls.start("agent", "--coordinator", f"127.0.0.1:{cls.port}", "--state", cls.directory / "a", "--node", "n7",
                  "--socket", cls.directory / "a.sock", "--metrics-port", cls.agent_port, "--sample-period", "100ms", *otlp)

    @classmethod
    def start(cls, daemon, *arguments):
        with open(cls.directory / f"{daemon}.log", "w") as log:
            process = subprocess.Popen([str(BUILD / "bin" / f"trimtab-{daemon}"), *map(str, arguments)],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.kill)

    def same_names(self, service, port):
        """A document whose families and types are those of the page, once the agent has joined."""

        def found():
            document = Collector.documents.get(service)
            text = page(port)
            same = document and kinds(document) == with_samples(text)
            return document if same and self.joined() else None

        return wait_until(found, f"a post of {service} that is as its page", 30)

    def joined(self):
        return "trimtab_agent_coordinator_connected 1" in page(self.agent_port)

    def test_the_agent_posts_its_page(self):
        document = self.same_names("trimtab-agent", self.agent_port)
        said = resource(document)
        self.assertEqual(said["trimtab.node"], "n7")
        self.assertEqual(len(said["service.instance.id"]), 16)
        self.assertRegex(said["service.version"], r"^\d+\.\d+")
        self.assertGreater(len(kinds(document)), 60)
        self.assertIn("trimtab_host_cpu_seconds_total", kinds(document))
        modes = {one["attributes"][0]["value"]["stringValue"] for one in points(document, "trimtab_host_cpu_seconds_total")}
        self.assertIn("user", modes)

    def test_the_coordinator_posts_its_page(self):
        document = self.same_names("trimtab-coordinator", self.port)
        self.assertEqual(len(points(document, "trimtab_otlp_exports_total")), 7)
        (memory,) = points(document, "process_resident_memory_bytes")
        self.assertGreater(memory["asDouble"], 1e6)
        (commits,) = points(document, "trimtab_cost_batch_commit_seconds")
        self.assertEqual(sum(map(int, commits["bucketCounts"])), int(commits["count"]))
        self.assertEqual(len(commits["bucketCounts"]), len(commits["explicitBounds"]) + 1)

    def test_a_bad_url_is_said_at_start(self):
        for daemon in ("agent", "coordinator"):
            done = subprocess.run([str(BUILD / "bin" / f"trimtab-{daemon}"), "--otlp-endpoint", "collector:4318"],
                                  capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 2)
            self.assertIn("neither http:// nor https://", done.stderr)
            self.assertIn("otlp", done.stderr)

    def test_the_log_says_once_where_metrics_go(self):
        self.same_names("trimtab-agent", self.agent_port)
        log = (self.directory / "agent.log").read_text()
        self.assertEqual(log.count("metrics go to http://127.0.0.1:"), 1, log)


if __name__ == "__main__":
    unittest.main()

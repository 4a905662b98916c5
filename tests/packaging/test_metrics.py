"""What dashboards and alerts ask for is documented; what is documented of the daemons themselves is what they export."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest
import urllib.request

import yaml

from installation import BUILD, ROOT, free_port, wait_until
from metric_pages import ALERTS, DASHBOARD, dashboard_queries, documented, exported, metrics_of

# Sections of docs/metrics.md whose metrics are there without a job or a GPU.
OF_COORDINATOR = "The coordinator"
OF_AGENT = "The agent itself"
# ... but for what only certificates or a job bring.
UNDER_TLS = {f"trimtab_{daemon}_{what}_expires_seconds" for daemon in ("agent", "coordinator") for what in ("certificate", "authority")}
ON_HARDWARE = {"trimtab_agent_link_fault"}  # of links that have lost something
FROM_JOBS = {"trimtab_agent_rank_report", "trimtab_agent_collective_seconds", "trimtab_job_step_duration_seconds"}


def page(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return answer.read().decode()


class Exported(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="trimtab-metrics-")
        cls.addClassCleanup(place.cleanup)
        directory = pathlib.Path(place.name)
        cls.start("coordinator", "--listen", "127.0.0.1:0", "--port-file", directory / "port", "--state", directory / "c")
        wait_until(lambda: (directory / "port").exists(), "the coordinator's port", 20)
        ports = int((directory / "port").read_text()), free_port()
        cls.start("agent", "--coordinator", f"127.0.0.1:{ports[0]}", "--state", directory / "a", "--socket",
                  directory / "a.sock", "--metrics-port", ports[1], "--sample-period", "100ms")
        joined = lambda: cls.try_page(ports[1], "trimtab_agent_coordinator_connected 1") and cls.try_page(
            ports[1], "trimtab_host_cpu_seconds_total")
        wait_until(joined, "the agent's joining", 20)
        cls.coordinator, cls.agent = page(ports[0]), page(ports[1])

    @classmethod
    def start(cls, daemon, *arguments):
        process = subprocess.Popen([str(BUILD / "bin" / f"trimtab-{daemon}"), *map(str, arguments)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.kill)

    @staticmethod
    def try_page(port, words):
        try:
            return words in page(port)
        except OSError:
            return False

    def test_the_manual_lists_what_the_daemons_export(self):
        known = documented()
        for text, section in ((self.coordinator, OF_COORDINATOR), (self.agent, OF_AGENT)):
            families = set(exported(text))
            self.assertEqual(families - set(known), set(), "not in docs/metrics.md")
            self.assertEqual(families & UNDER_TLS, set(), "of certificates where there are none")
            listed = {name for name, place in known.items() if place == section}
            self.assertEqual(listed - families - FROM_JOBS - UNDER_TLS - ON_HARDWARE, set(), f"in docs/metrics.md, {section}, but not exported")

    def test_names_say_what_they_are(self):
        for name, kind in {**exported(self.coordinator), **exported(self.agent)}.items():
            self.assertEqual(name.endswith("_total"), kind == "counter", name)
            self.assertIn(kind, ("counter", "gauge", "histogram"))
            self.assertIsNone(re.search(r"_(ms|ns|us|milliseconds|kib|mib|mb|gb|percent|celcius)(_|$)", name), name)

    def test_histograms_are_whole(self):
        for name, kind in exported(self.coordinator).items():
            if kind != "histogram" or name in FROM_JOBS:
                continue
            self.assertIn(f'{name}_bucket{{le="+Inf"}} ', self.coordinator)
            self.assertIn(f"\n{name}_sum ", self.coordinator)
            self.assertIn(f"\n{name}_count ", self.coordinator)


class Asked(unittest.TestCase):
    def test_the_dashboard_asks_for_known_metrics(self):
        known = documented()
        queries = dashboard_queries()
        self.assertGreater(len(queries), 30)
        for title, expression in queries:
            self.assertTrue(metrics_of(expression), f"{title}: {expression}")
            self.assertEqual(metrics_of(expression) - set(known), set(), title)

    def test_the_dashboard_loads(self):
        board = json.loads(DASHBOARD.read_text())
        ids = [panel["id"] for panel in board["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        places = set()
        for panel in board["panels"]:
            box = panel["gridPos"]
            self.assertLessEqual(box["x"] + box["w"], 24, panel["title"])
            cells = {(x, y) for x in range(box["x"], box["x"] + box["w"]) for y in range(box["y"], box["y"] + box["h"])}
            self.assertFalse(cells & places, f"{panel['title']} lies over another panel")
            places |= cells
            if panel["type"] != "row":
                self.assertEqual(panel["datasource"]["uid"], "${datasource}")
        self.assertEqual([variable["name"] for variable in board["templating"]["list"]], ["datasource", "job"])

    def test_alerts_ask_for_known_metrics_and_name_what_to_do(self):
        known = documented()
        manual = (ROOT / "docs" / "operating.md").read_text()
        anchors = {re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
                   for line in manual.splitlines() if line.startswith("#")}
        for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]:
            asked = metrics_of(rule["expr"])
            self.assertTrue(asked or "up{" in rule["expr"], rule["alert"])
            self.assertEqual(asked - set(known), set(), rule["alert"])
            self.assertIn(rule["annotations"]["runbook"], anchors, rule["alert"])


if __name__ == "__main__":
    unittest.main()

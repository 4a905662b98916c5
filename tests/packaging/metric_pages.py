"""Metrics as the daemons export them, as docs/metrics.md lists them, and as dashboards and alerts ask for them."""

import json
import re

from installation import ROOT

DASHBOARD = ROOT / "packaging" / "grafana" / "trimtab.json"
ALERTS = ROOT / "packaging" / "prometheus" / "trimtab-alerts.yml"
NAME = r"(?:trimtab|process)_[a-z0-9_]+"
# What Prometheus makes of a histogram's name.
PARTS = re.compile(r"_(bucket|sum|count)$")


def documented():
    """Each metric of docs/metrics.md with its section."""
    found, section = {}, ""
    for line in (ROOT / "docs" / "metrics.md").read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        if line.startswith("| `"):
            for name in re.findall(f"`({NAME})`", line.split("|")[1]):
                found[name] = section
    return found


def exported(text):
    """Families of a page: name to type."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))


def dashboard_queries():
    """(panel's title, expression) of each query."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]


def metrics_of(expression):
    return {PARTS.sub("", name) if name not in documented() else name for name in re.findall(NAME, expression)}

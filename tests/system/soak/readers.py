"""People and scripts that look all the time: the API, the page, metrics of all daemons, `trimtab top` and others."""
import collections
import http.client
import json
import threading
import time


class Readers:
    def __init__(self, cluster, random):
        self._cluster, self._random = cluster, random
        self._stopping = threading.Event()
        self.answered, self.unanswered = collections.Counter(), 0
        self._threads = [threading.Thread(target=self._again, args=(look, pause), daemon=True)
                         for look, pause in ((self._ask, 0.25), (self._scrape, 1.0), (self._command, 3.0))]

    def start(self):
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _again(self, look, pause):
        while not self._stopping.is_set():
            try:
                look()
            except (OSError, http.client.HTTPException, TimeoutError):
                self.unanswered += 1  # The daemon is away, or stands still.
            time.sleep(pause)

    def _job(self):
        status, text = self._cluster.request("GET", "/v1/jobs")
        names = [job["name"] for job in json.loads(text)["jobs"]] if status == 200 else []
        return self._random.choice(names) if names else None

    def _ask(self):
        name = self._job()
        targets = ["/v1/status", "/v1/nodes", "/v1/costs", "/v1/audit", "/", "/metrics"]
        if name:
            targets += [f"/v1/jobs/{name}{part}" for part in ("", "/events?after=0", "/trials", "/report", "/live")]
        target = self._random.choice(targets)
        status, _ = self._cluster.request("GET", target)
        self.answered[str(status)] += 1

    def _scrape(self):
        self._cluster.agent_metrics(self._random.choice(self._cluster.agents))
        self.answered["agents' metrics"] += 1

    def _command(self):
        name = self._job()
        verbs = [("status", "--json"), ("audit",)]
        if name:
            verbs += [("top", "--once", "--job", name), ("trials", "--job", name)]
        done = self._cluster.command(*self._random.choice(verbs))
        self.answered[f"trimtab, exit code {done.returncode}"] += 1

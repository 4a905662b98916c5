"""Jobs one after the other, some names again and again and others once, until it is told to stop; each is handed in, followed
and, where faults have left it hanging or by the schedule's whim, stopped as a person would."""
import http.client
import json
import pathlib
import threading
import time

FINAL = ("finished", "failed", "stopped")
PATIENCE_S = 60


def job_document(name, world_size, steps, counts):
    command = ["/usr/bin/python3", str(pathlib.Path(__file__).with_name("job.py"))]
    ranks = ["--rank", "{rank}", "--world-size", "{world_size}", "--rendezvous", "{rendezvous}"]
    return {"schema": "trimtab.job/1", "name": name, "mode": "auto", "delivery": "live", "share_devices": True, "world_size": world_size,
            "memory_limit_bytes": 1 << 30, "steps": steps, "working_directory": "/",
            "commands": {"describe": [*command, "describe"],
                         "benchmark": [*command, "benchmark", *ranks, "--requests", "{requests}"],
                         "train": [*command, "train", *ranks, "--plan", "{plan}", "--steps", "{steps}", "--counts", str(counts)]},
            "environment": {"TRIMTAB_RANGES": "client"},
            "trials": {"warmup_steps": 2, "measure_steps": 6, "blocks": 2, "candidates": 2, "max_trials": 2, "overhead": 1.0,
                       "loss_check_steps": 5, "after": "stop", "deadline_ns": 20_000_000_000}}


class Load:
    def __init__(self, cluster, random, at_once):
        self._cluster, self._random, self._at_once = cluster, random, at_once
        self._stopping = threading.Event()
        self._number = 0
        self._active = {}  # name to when it was handed in
        self.ended = {}    # by phase
        self.stopped_late = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()

    def stop(self):
        self._stopping.set()
        self._thread.join()

    def jobs_active(self):
        return len(self._active)

    def _run(self):
        while not self._stopping.is_set():
            self._look()
            if len(self._active) < self._at_once:
                self._hand_in()
            time.sleep(0.5)

    def look_until_over(self, seconds):
        """Stops what still runs. True when all is over in time."""
        deadline = time.monotonic() + seconds
        for name in self._active:
            self._active[name] = 0
        while self._active and time.monotonic() < deadline:
            self._look()
            time.sleep(0.5)
        return not self._active

    def _request(self, method, target, body=None):
        """None while the coordinator is away."""
        try:
            return self._cluster.request(method, target, body)
        except (OSError, http.client.HTTPException):
            return None

    def _hand_in(self):
        self._number += 1
        again = self._random.random() < 0.5
        name = f"again-{self._random.randrange(4)}" if again else f"once-{self._number}"
        if name in self._active:
            return
        job = job_document(name, self._random.choice((1, 2, 2, 3)), self._random.randrange(300, 1500), self._cluster.counts)
        answer = self._request("POST", "/v1/jobs", {"job": job, "tune": True})
        if answer is None:
            return
        assert answer[0] in (200, 201, 202, 409, 503), f"handing in {name} gave {answer}"
        if answer[0] < 300:
            self._active[name] = time.monotonic()

    def _look(self):
        for name, since in list(self._active.items()):
            answer = self._request("GET", f"/v1/jobs/{name}")
            if answer is None:
                return
            if answer[0] == 404:  # Over for so long that it is forgotten.
                self._over(name, "forgotten")
                continue
            phase = json.loads(answer[1])["phase"] if answer[0] == 200 else ""
            if phase in FINAL:
                self._over(name, phase)
            elif time.monotonic() - since > PATIENCE_S:
                self.stopped_late += 1
                self._request("POST", f"/v1/jobs/{name}/stop")

    def _over(self, name, phase):
        self.ended[phase] = self.ended.get(phase, 0) + 1
        del self._active[name]

"""The client a training process holds: reports out, plan changes in, ranges into the C library.

The process's main thread calls everything; ranges may come from any thread. No thread of its own: the socket is
served inside step() and next_plan(), which never wait. After a fork the child's client does nothing.
"""
import functools
import json
import math
import os
import time

from .connection import Connection
from .plan_change import PlanChange
from .preparations import Preparations
from .ranges import Ranges

INBOX_MAX = 256
WATCHED_POLL_S = 0.05  # A watched rank is told nothing, so its frames may wait so long for those behind them.


def connect(step=0, phases=None):
    """A client for this process, from the TRIMTAB_* environment; training starts at `step`.

    Never fails; without an agent it does nothing. phases: as of begin().
    """
    client = Client(os.environ, watched=_taken_over(os.environ))
    client.begin(step, phases)
    return client


def _taken_over(environment):
    """Who this rank is where `trimtab run` watches it (trimtab.watch): from here on the job tells of itself."""
    if environment.get("TRIMTAB_WATCH") != "1":
        return None
    from .watch.identity import own_identity
    from .watch.session import session

    session.stop()
    return own_identity(environment)


def _integer(text, default):
    try:
        return int(text)
    except (TypeError, ValueError):
        return default


def _document(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def _is_said(value):
    """JSON has no way to say NaN or infinity: a loss that became one is named in `not_finite` instead."""
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


def _contained(method):
    """The border to training: whatever goes wrong inside is counted, and training goes on."""

    @functools.wraps(method)
    def guarded(self, *arguments, **named):
        if os.getpid() != self._pid:
            return None
        try:
            return method(self, *arguments, **named)
        except Exception:
            self.errors += 1
            return None

    return guarded


class Client:
    def __init__(self, environment, *, clock=time.monotonic, watched=None, measures=False, in_target=False):
        """watched: the Identity (watch/identity.py) of a rank that its user launched, not the agent.
        measures: the job looks at `measuring` between its steps, on all ranks (measuring_again.py).
        in_target: next_plan() is about the JSON file that the job's target reads (TRIMTAB_TARGET_CONFIG), not about plan.json."""
        self._pid = os.getpid()
        self._job = environment.get("TRIMTAB_JOB", "")
        self._watched = watched
        self._rank = watched.rank if watched else _integer(environment.get("TRIMTAB_RANK"), 0)
        self._world_size = watched.world_size if watched else _integer(environment.get("TRIMTAB_WORLD_SIZE"), 1)
        self._facts = {}
        self._facts_connection = 0  # The number of the connection that they were told on.
        self._clock = clock
        self._served = float("-inf")
        self._step = 0
        self._start = {}
        self._stop_step = None
        self._inbox = []
        self._measures, self._measuring = measures, None
        self.errors = 0
        self._preparations = Preparations()
        self._kill_switch = environment.get("TRIMTAB_KILL_SWITCH", "")
        self._plan_member, launched = ("target_config", "TRIMTAB_TARGET_CONFIG") if in_target else ("plan", "TRIMTAB_PLAN")
        self._change = PlanChange(_integer(environment.get("TRIMTAB_EPOCH"), 0),
                                  functools.partial(_document, environment.get(launched, "")))
        self.ranges = Ranges(environment)
        self.range, self.push, self.pop = self.ranges.range, self.ranges.push, self.ranges.pop
        path = environment.get("TRIMTAB_SOCKET", "")
        off = not path or environment.get("TRIMTAB") == "0"
        self._connection = None if off else Connection(path, self._hello, clock)

    @property
    def epoch(self):
        """The epoch of the plan that runs."""
        return self._change.active_epoch

    @property
    def runs_incumbent(self):
        """The plan that runs is no trial's (any more), as far as this rank has heard. Agree on it before acting."""
        return self._change.runs_incumbent

    @property
    def dropped(self):
        """Messages lost because the agent did not take them."""
        return self._connection.dropped if self._connection else 0

    @property
    def stop_requested(self):
        """The agent asked for an end after a step that is done. Agree on it over all ranks before acting."""
        return self._stop_step is not None and self._step > self._stop_step

    @property
    def measuring(self):
        """The number of what the agent asks to measure again, or 0. Measure it where all ranks have the same one."""
        held = self._measuring is not None and self._kill_switch and os.path.lexists(self._kill_switch)
        return 0 if self._measuring is None or held else self._measuring["number"]

    def take_measuring(self):
        """The request that `measuring` is the number of. It is asked for once."""
        request, self._measuring = self._measuring, None
        return request

    @_contained
    def measured(self, number, step, result):
        """Before step number `step`: what measuring_again.run() returned."""
        self._send({"type": "measured", "number": number, "step": step, **result}, important=True)

    @_contained
    def begin(self, step=0, phases=None):
        """Training is about to run step number `step`: say hello to the agent.

        phases: parts of what it took to come here in nanoseconds, where they are known: groups (communicators), build
        (modules, compilation).
        """
        self._step = step
        self._start = {f"{name}_ns": int(ns) for name, ns in (phases or {}).items()}
        if self._connection is not None:
            self._preparations.count()  # What came before training is no step's.
        self._poll()

    @_contained
    def prepared(self):
        """The step under way did what later ones will not, where PyTorch does not tell of it (preparations.py)."""
        self._preparations.add()

    @_contained
    def step(self, step, *, wall_ns=0, cpu_ns=0, loss=None, gradient_norm=None, samples=None, peak_bytes=None,
             parts=None, microbatches=None, count=None, tokens=None):
        """Step number `step` is done. The second line: of watched ranks (docs/protocols.md, "Watched ranks")."""
        self._step = max(self._step, step + 1)
        if self._connection is None:
            return
        message = {"type": "step", "step": step, "epoch": self._change.active_epoch,
                   "wall_ns": int(wall_ns), "cpu_ns": int(cpu_ns)}
        optional = {"loss": loss, "gradient_norm": gradient_norm, "samples": samples, "peak_bytes": peak_bytes,
                    "parts": parts, "microbatches": microbatches, "count": count, "tokens": tokens}
        message.update({name: value for name, value in optional.items() if _is_said(value)})
        not_finite = [name for name, value in optional.items() if value is not None and name not in message]
        if not_finite:
            message["not_finite"] = not_finite[0]
        preparations = self._preparations.count()
        if preparations:
            message["preparations"] = preparations
        self._send(message)

    @_contained
    def facts(self, facts):
        """What this rank trains, on what and how (docs/protocols.md, "Watched ranks"): told now and on each new connection."""
        self._facts, self._facts_connection = dict(facts), 0
        self._poll()

    @_contained
    def report(self, name, value):
        self._send({"type": "report", "name": str(name), "value": value})

    def next_plan(self, step, agree, validate=None):
        """The change to make before step number `step`, or None.

        `agree` takes an integer and returns its minimum over all ranks of the job; every rank must come here at the
        same steps, agent or no agent, because it is always called. What it raises is raised here. `validate(plan)`
        raises Refused (or anything) for a plan that this rank cannot run.
        """
        self._begin_round(step, validate)
        return self._change.decide(step, agree)

    @_contained
    def _begin_round(self, step, validate):
        self._step = step
        # A person throws it, with or without an agent: the file is what counts, looked at between any two steps.
        self._change.hold(bool(self._kill_switch) and os.path.lexists(self._kill_switch))
        self._poll()
        while self._inbox:
            self._handle(self._inbox.pop(0), validate)

    @_contained
    def _handle(self, message, validate):
        """One message from the agent; what is malformed or unknown is counted and passed over."""
        kind = message.get("type")
        if kind == "plan_propose":
            answer = self._change.propose(int(message["epoch"]), message.get(self._plan_member), self._step, validate,
                                          incumbent=message.get("incumbent") is True)
            if answer is not None:
                self._send(answer, important=True)
        elif kind == "plan_commit":
            self._change.commit(int(message["epoch"]), int(message["step"]))
        elif kind == "plan_cancel":
            self._change.cancel(int(message["epoch"]))
        elif kind == "stop":
            self._stop_step = int(message["step"])

    @_contained
    def activated(self, epoch, step, *, switch_ns, peak_bytes, phases=None):
        """The job runs the plan of `epoch` from step number `step` on.

        phases: parts of switch_ns in nanoseconds, where they are known: save, move, groups, build.
        """
        left, self._change.active_epoch = self._change.active_epoch, epoch
        if epoch < left:
            self._send({"type": "plan_failed", "epoch": left, "step": step, "reason": "kill_switch",
                        "message": "the kill switch is thrown: the ranks went back to the incumbent"}, important=True)
        told = {f"{name}_ns": int(ns) for name, ns in (phases or {}).items()}
        self._send({"type": "plan_active", "epoch": epoch, "step": step, "switch_ns": int(switch_ns),
                    "peak_bytes": int(peak_bytes), **told}, important=True)

    @_contained
    def failed(self, epoch, step, *, reason, message, active_epoch=None):
        """The plan of `epoch` failed; the job runs that of `active_epoch` (where not given: it never left it)."""
        if active_epoch is not None:
            self._change.active_epoch = active_epoch
            self._change.keep(active_epoch)
        self._send({"type": "plan_failed", "epoch": epoch, "step": step, "reason": reason,
                    "message": str(message)[:2000]}, important=True)

    @_contained
    def out_of_memory(self, error):
        """The plan that runs took more memory than there is, and this process is about to end for it."""
        self.failed(self._change.active_epoch, self._step, reason="out_of_memory", message=error)

    @_contained
    def close(self, step=None):
        """Say goodbye as far as the socket takes it at once."""
        if self._connection is not None:
            self._send({"type": "bye", "step": self._step if step is None else step}, important=True)
            self._connection.disconnect()

    def _hello(self):
        message = {"type": "hello", "version": 1, "pid": self._pid, "job": self._job, "rank": self._rank,
                   "world_size": self._world_size, "epoch": self._change.active_epoch, "step": self._step, **self._start}
        if self._measures:
            message["measures"] = True
        if self._watched is not None:
            message.update(watched=True, launch=self._watched.launch)
            if self._watched.local_rank is not None:
                message["local_rank"] = self._watched.local_rank
        return message

    def _send(self, message, important=False):
        if self._connection is not None:
            self._connection.send(message, important)
            if self._watched is None or important or self._clock() - self._served >= WATCHED_POLL_S:
                self._poll()

    @_contained
    def _poll(self):
        """Serve the socket. What is said of plans waits for next_plan(), which brings the means to judge it."""
        if self._connection is None:
            return
        self._served = self._clock()
        self._inbox += self._unheard(self._connection.poll())
        if self._facts and self._connection.connected and self._facts_connection != self._connection.connected_count:
            self._facts_connection = self._connection.connected_count
            self._connection.send({"type": "facts", **self._facts})
            self._inbox += self._unheard(self._connection.poll())
        if len(self._inbox) > INBOX_MAX:  # No agent has so much to say between two steps.
            self._inbox.clear()
            self._connection.disconnect()
            self.errors += 1

    def _unheard(self, messages):
        """Those that are not about measuring again, of which the latest counts."""
        for message in messages:
            if message.get("type") == "measure":
                self._hear_request(message)
            elif message.get("type") == "measure_cancel":
                self._measuring = None
        return [message for message in messages if message.get("type") not in ("measure", "measure_cancel")]

    @_contained
    def _hear_request(self, message):
        items = [{**item, "expected_ns": int(item["expected_ns"])} for item in message["items"]]
        self._measuring = {"number": int(message["number"]), "bound_ms": float(message["bound_ms"]), "items": items}

"""The one session of a process: what hooks tell it becomes steps for the agent.

Hooks call enter() and leave() around parts, and one of them says when a step ends. By default that is the optimizers' hook;
a framework that knows better takes over (take_over, then ends). The process becomes a rank with its first optimizer step. Only
the thread that trains is measured; what other threads and forked children call does nothing.
"""
import atexit
import contextlib
import os
import sys
import threading
import time

from .account import BACKWARD, NAMES, RECOMPUTE, Account
from .traced import marks

# Those that call one another, the outermost first. That one knows where a step ends, and its settings are the user's.
FRAMEWORKS = ("transformers", "lightning", "accelerate", "torchtitan", "megatron", "deepspeed")


def outer(framework, other):
    """The one that calls the other, which may be none."""
    return min(framework, other or framework, key=FRAMEWORKS.index)


_TOLD = tuple(f"{name}_ns" for name in NAMES[1:])  # All but what is left of the step.


class NoRanges:
    """Until the process is a rank."""

    active = False

    def push(self, name, payload=0):
        pass

    def pop(self):
        pass


class Guard:
    """A context manager that is entered several times a step: one made of a generator takes five times as long."""

    __slots__ = ("_session", "_what")

    def __init__(self, session, what):
        self._session, self._what = session, what

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _trace):
        if not isinstance(error, Exception):
            return False
        self._session.failed(self._what, error)
        return True


class Session:
    def __init__(self, environment=os.environ):
        self._environment = environment
        self._said = False
        self.errors = 0
        self._reset()
        os.register_at_fork(after_in_child=self._forked)

    def _reset(self):
        self._thread = None  # That trains; None: nobody has yet.
        self._off = self._environment.get("TRIMTAB_WATCH") != "1" or self._environment.get("TRIMTAB") == "0"
        self._client = None
        self._knows_ends = None
        self._number = 0
        self._cpu = time.process_time_ns()
        self._telling = {}  # Of the step under way, by a framework: loss, count, tokens, microbatches.
        self.told = {}  # Of the last step that is done: these, and what hooks have seen.
        self._collected = []
        self._after_step = []
        self._account = Account(NoRanges())

    def _forked(self):
        """A forked child trains nothing, unless its parent did not either."""
        if self._client is None:
            self._reset()
        else:
            self._thread, self._off = -1, True

    # What goes wrong.

    def guard(self, what):
        """The border to the user's process: what is raised inside is said once and passed over."""
        return Guard(self, what)

    def failed(self, what, error):
        self.errors += 1
        if self._said:
            return
        self._said = True
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"trimtab: {what} fails ({type(error).__name__}: {error}); the job goes on, and its card may "
                             "lack what it would have told\n")

    def stop(self):
        """Nothing is measured or told any more: the job tells of itself (trimtab.connect)."""
        self._off, self._thread = True, -1

    # Parts.

    def enter(self, part, name=None, payload=0):
        """A part begins on this thread. leave() takes what this returns; 0: nothing is measured here."""
        thread = self._thread
        if thread != threading.get_ident():
            if thread is not None or self._off:
                return 0
            self._trains_here()
        if marks.stepped:
            self._compiled_step()
        return self._account.enter(part, name, payload)

    def _compiled_step(self):
        """Compiled code has done an optimizer's step, some time before this moment: the step ends here."""
        marks.stepped = False
        self.begins()
        self.ends("optimizers")

    def leave(self, depth):
        if depth and self._thread == threading.get_ident():
            self._account.leave(depth)

    def inside(self, part):
        return self._thread == threading.get_ident() and part in self._account.parts

    @property
    def account(self):
        """Of the thread that trains; None on another."""
        return self._account if self._thread == threading.get_ident() else None

    def _trains_here(self):
        self._thread = threading.get_ident()
        self._account.restart()
        self._cpu = time.process_time_ns()

    # Steps.

    @property
    def is_rank(self):
        return self._client is not None

    @property
    def client(self):
        return self._client

    @property
    def off(self):
        return self._off

    def knows_ends(self, who):
        """Whether `who` ("optimizers", or a framework that took over) says when steps end."""
        return (self._knows_ends or "optimizers") == who

    def take_over(self, who):
        """From now on only ends(who) ends steps, but for a framework around it that has taken over."""
        self._knows_ends = outer(who, self._knows_ends)

    def tell(self, **values):
        """Of the step under way, by who knows better than the hooks: loss, gradient_norm, count, tokens, microbatches."""
        self._telling.update({name: value for name, value in values.items() if value is not None})

    def collect(self, function):
        """function() returns such values as a dict, at the end of each step."""
        self._collected.append(function)

    def after_step(self, function):
        """function(number) is called after each step, until it returns False."""
        self._after_step.append(function)

    @property
    def is_launched(self):
        """By Trimtab's agent, which may do so again: the numbers of steps go on where a checkpoint was loaded."""
        return bool(self._environment.get("TRIMTAB_LAUNCH"))

    def begins(self, number=None):
        """This process trains: it becomes a rank where it is none, at step `number` (0)."""
        if self._off or self._client is not None:
            return
        if self._thread != threading.get_ident():
            self._trains_here()
        from trimtab.client import Client

        from .identity import own_identity

        self._number = number or 0
        self._client = Client(self._environment, watched=own_identity(self._environment))
        self._account.close_ranges()
        self._account.use(self._client.ranges)
        self._client.begin(self._number)
        self._client.push("step", self._number)
        atexit.register(self._close)

    def ends(self, who, number=None):
        """A step has ended here. `number`: its own, where somebody counts."""
        if self._off or not self.knows_ends(who) or self._thread != threading.get_ident():
            return
        self.begins(number)
        account = self._account
        wall, ns = account.take(account.now())
        cpu = time.process_time_ns()
        if number is not None:
            self._number = number
        account.close_ranges()
        self._client.pop()
        ns[BACKWARD] += ns[RECOMPUTE]
        parts = dict(zip(_TOLD, ns[1:]))
        stolen = account.take_stolen()
        if stolen is not None:
            parts["stolen_ns"] = stolen
        self.told = self._values()
        self._client.step(self._number, wall_ns=wall, cpu_ns=cpu - self._cpu, parts=parts, **self.told)
        self._cpu = cpu
        done, self._number = self._number, self._number + 1
        self._client.push("step", self._number)
        if self._after_step:
            self._call_after(done)

    def _values(self):
        """What is told of the step beside its times. What a framework says counts before what hooks have seen."""
        told, self._telling = self._telling, {}
        with self.guard("a step's values"):
            for function in self._collected:
                for name, value in function().items():
                    told.setdefault(name, value)
        return told

    def _call_after(self, number):
        for function in list(self._after_step):
            with self.guard(getattr(function, "__qualname__", "a hook")):
                if function(number) is not False:
                    continue
            self._after_step.remove(function)  # It has done its work, or cannot.

    def _close(self):
        if self._client is not None and not self._off:
            self._client.close()


session = Session()

"""Megatron-LM's own training script, which needs no line of Trimtab's, run so that it tells Trimtab of its steps:

    python3 -m trimtab.megatron /opt/megatron/pretrain_gpt.py ARGUMENTS...

The script runs as `python3 SCRIPT ARGUMENTS...` runs it. Once Megatron-LM's train_step is loaded, each call of it tells the
iteration, what it took, loss, gradient norm and peak memory. A script that ends for want of memory says so too. Without an agent (TRIMTAB_SOCKET) nothing is touched. What
goes wrong here is said once, on standard error, and training goes on.

Relied on, in Megatron Core 0.4 to 0.20: the module's `train_step` and `get_args`, `args.curr_iteration`, and what PLACES says.
SIGTERM is Megatron-LM's own affair (--exit-signal-handler).
"""
import builtins
import contextlib
import functools
import io
import os
import sys
import time
import types

from .client import connect
from .out_of_memory import is_out_of_memory
from .watch.finder import Watcher

MODULES = ("megatron.training.training", "megatron.training")  # since Megatron Core 0.6; before
# By the number of values that train_step returns (to Megatron Core 0.9; to 0.15; since): where should_exit and the
# gradient norm are. First are the losses by name: none but on the last pipeline stage.
PLACES = {4: (None, 2), 7: (3, 5), 8: (3, 5)}
OTHERWISE = "call client.step() in the training loop instead (docs/targets.md)"


class Steps:
    """Calls of train_step, told to a client. Main thread only."""

    def __init__(self, connect=connect, output=None):
        self._connect = connect
        self._output = output
        self._found = False
        self._client = None
        self._calls = 0
        self._warned = set()

    def loaded(self, module):
        """One of MODULES has been run: from now on its train_step tells."""
        if hasattr(module, "__path__"):
            return None  # The package: its submodule comes, or came.
        self._found = True
        missing = [name for name in ("train_step", "get_args") if not callable(getattr(module, name, None))]
        if missing:
            return self._warn("module", f"needs train_step() and get_args() in {module.__name__}, finds no "
                                        f"{' and no '.join(missing)}: no step is told; {OTHERWISE}")
        module.train_step = self.around(module.train_step, module.get_args)

    def around(self, train_step, get_args):
        """A train_step that does, returns and raises what the given one does."""

        @functools.wraps(train_step)
        def told(*arguments, **named):
            step = self._begin(get_args, named)
            wall, cpu = time.perf_counter_ns(), time.process_time_ns()
            returned = train_step(*arguments, **named)
            if step is not None:
                self._end(step, returned, wall, cpu)
            return returned

        return told

    def raised(self, error):
        """The script ends with this. Where it is memory that was wanting, plans that need as much need not be tried."""
        if not is_out_of_memory(error):
            return
        if self._client is None:
            self._client = self._connect(0)  # Before the first step.
        self._client.out_of_memory(error)

    def close(self):
        if self._client is not None:
            self._client.close()
        if not self._found:
            self._warn("module", f"needs a script that imports {MODULES[0]}, this one did not: no step is told; {OTHERWISE}")

    def _begin(self, get_args, named):
        """The number of the step that begins; None where nobody knows it."""
        try:
            step = self._iteration(get_args(), named)
            if self._client is None:
                self._client = self._connect(step)
            return step
        except Exception as error:
            return self._warn("iteration", "needs the iteration in train_step()'s arguments or in args.curr_iteration, finds "
                                           f"{type(error).__name__} ({error}): the step is not told; {OTHERWISE}")

    def _iteration(self, args, named):
        """Counted from 0, as inside Megatron-LM's loop: its log and its checkpoints call this one's end by one more."""
        if named.get("iteration") is not None:
            return int(named["iteration"])
        if hasattr(args, "curr_iteration"):
            return int(args.curr_iteration)
        self._calls += 1
        return int(args.iteration) + self._calls - 1  # of the checkpoint

    def _end(self, step, returned, wall, cpu):
        try:
            should_exit, loss, norm = _parts(returned)
        except Exception as error:
            self._warn("values", "needs 4, 7 or 8 values from train_step(), the losses by name first, finds "
                                 f"{_found(returned)} ({type(error).__name__} {error}): loss and gradient norm are not told, so "
                                 f"a plan that spoils them is not noticed; {OTHERWISE}")
            should_exit = loss = norm = None
        if should_exit:
            return  # Megatron-LM leaves its loop without counting it.
        # Megatron-LM waits for the GPU to read its norm, and the loss has been read: this is the whole step.
        self._client.step(step, wall_ns=time.perf_counter_ns() - wall, cpu_ns=time.process_time_ns() - cpu, loss=loss,
                          gradient_norm=norm, peak_bytes=_peak_bytes())

    def _warn(self, kind, words):
        if kind in self._warned:
            return
        self._warned.add(kind)
        with contextlib.suppress(OSError, ValueError):  # Whoever read standard error may be gone.
            print(f"trimtab.megatron: {words}", file=self._output or sys.stderr, flush=True)


def _parts(returned):
    """should_exit, the loss, the gradient norm; None for what this rank does not know."""
    exits, norm = PLACES[len(returned)]
    losses = [_number(value) for value in returned[0].values()]
    return exits is not None and bool(returned[exits]), sum(losses) / len(losses) if losses else None, _number(returned[norm])


def _number(value):
    """Of a number, or of a tensor of one element."""
    return None if value is None else float(value)


def _found(returned):
    kinds = [type(value).__name__ for value in returned] if isinstance(returned, (tuple, list)) else [type(returned).__name__]
    return f"{len(kinds)}: {', '.join(kinds)}"


def _peak_bytes():
    """None: on a CPU the process's peak says nothing of the plan alone."""
    torch = sys.modules.get("torch")
    try:
        return torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else None
    except Exception:  # No PyTorch, or none that knows this.
        return None


def has_agent(environment):
    return bool(environment.get("TRIMTAB_SOCKET")) and environment.get("TRIMTAB") != "0"


def read(script):
    """The compiled script; raises OSError and SyntaxError."""
    with io.open_code(script) as file:
        return compile(file.read(), os.path.abspath(script), "exec", dont_inherit=True)


def execute(code, script, arguments):
    """As the interpreter runs a script: it is __main__ until the process ends, and is found first in its own folder."""
    program = types.ModuleType("__main__")
    program.__file__ = os.path.abspath(script)
    program.__builtins__ = builtins
    sys.modules["__main__"] = program
    sys.argv = [script, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(script))
    exec(code, program.__dict__)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print("usage: python3 -m trimtab.megatron SCRIPT ARGUMENTS...", file=sys.stderr)
        return 2
    script, arguments = sys.argv[1], sys.argv[2:]
    try:
        code = read(script)
    except OSError as error:
        print(f"trimtab.megatron: cannot read {script}: {error.strerror}", file=sys.stderr)
        return 2
    if not has_agent(os.environ) or os.environ.get("TRIMTAB_WATCH") == "1":  # Watched: trimtab.watch does the same.
        execute(code, script, arguments)
        return 0
    steps = Steps()
    sys.meta_path.insert(0, Watcher(MODULES, steps.loaded))
    try:
        execute(code, script, arguments)
    except Exception as error:
        steps.raised(error)
        raise
    finally:
        steps.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The start of a rank that Trimtab's agent may launch anew (docs/protocols.md, "Prepared launches").

A rank that is launched bare notes which installed packages its program imports, in what order (Notes). The agent starts the
next launch's process while this one trains. That process imports the same and waits (hold), before a line of the program has
run. Then it is given its arguments, its environment and its log, and Python goes on as if it had just been started.

What the program does before an import, and an import might see, ends the notes: any statement of its files that does more
than define names, another environment or finder, a process group, a device. Loaded by sitecustomize.py where the agent asks for it. Nothing here may raise into the program.
"""
import _thread
import os
import sys

# Taken as installed wherever it lies. megatron.training is not: it takes the time of its import for the begin of training.
_LIBRARY = "megatron.core"
_INSTALLED = ("/site-packages/", "/dist-packages/", os.path.dirname(os.__file__) + "/")
# Whose own statements are none of the program's.
_OTHERS = (*_INSTALLED, "/megatron/core/", "/megatron/training/", "<frozen ", os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/")
_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")
_PAUSE = 4.0  # Times as long as imports have taken: where they cannot run at idle priority they take a fifth of a processor.
_SLICE_S = 0.005
_DIE_FIRST = "1000"
_ONLY_AST = 0x400  # ast.PyCF_ONLY_AST, without loading ast.
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG of prctl(2).


def begin(environment=os.environ):
    """Called once, at Python's start. Neither variable is for what the program starts itself."""
    path, held = environment.pop("TRIMTAB_IMPORTS", None), environment.pop("TRIMTAB_HELD", None)
    if path is None or os.getpid() != os.getpgrp():
        return  # The agent's own child leads its group. What that starts has seen no variable.
    if held is not None:
        hold(int(held), path)
    else:
        Notes(path)


# A bare launch.


class Notes:
    """A finder, asked first: notes what the program's main thread imports of installed packages, once it is loaded."""

    def __init__(self, path):
        self._path, self._process, self._thread = path, os.getpid(), _thread.get_ident()
        self._searched = None  # sys.path of the last note.
        self._inside = False
        self._acts = {}  # By file of the program: the line of the first statement that may change what an import sees.
        self._write(f"{len(sys.argv) - 1} {_command_line().hex()}", os.O_TRUNC)
        sys.meta_path.insert(0, self)
        self._seen = _surroundings()

    def find_spec(self, name, path=None, target=None):
        if self._inside or _thread.get_ident() != self._thread:
            return None
        if self._is_over():
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            return None
        spec = self._ask_others(name, path, target)
        self._seen = _surroundings()
        if spec is not None and is_installed(spec) and hasattr(spec.loader, "exec_module"):
            spec.loader = _Noting(spec.loader, self)
        return spec

    def _ask_others(self, name, path, target):
        self._inside = True  # They may ask this one, and import what they need themselves.
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                spec = None if finder is self or find is None else find(name, path, target)
                if spec is not None:
                    return spec
            return None
        finally:
            self._inside = False

    def _is_over(self):
        """A module that is imported from here on may see what the program has done."""
        return (os.getpid() != self._process or self._seen != _surroundings() or _is_set_up()
                or not all(map(self._is_before_acts, _program_frames())))

    def _is_before_acts(self, frame):
        file = frame.f_code.co_filename
        if file not in self._acts:
            self._acts[file] = _first_act(file)
        return frame.f_code.co_name == "<module>" and frame.f_lineno < self._acts[file]

    def run(self, loader, module):
        self._inside = True
        try:
            loader.exec_module(module)
        finally:
            self._inside = False
            self._seen = _surroundings()
        searched = None if sys.path == self._searched else list(sys.path)
        self._searched = list(sys.path)
        self._write(repr((module.__name__, getattr(sys.modules["__main__"], "__file__", None), searched)))

    def _write(self, line, flags=0):
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
            try:
                os.write(file, os.fsencode(line + "\n"))
            finally:
                os.close(file)
        except OSError:
            self._process = -1  # A note is missing: no more are taken.


class _Noting:
    """Stands before a module's own loader for the time of its execution."""

    def __init__(self, plain, notes):
        self._plain, self._notes = plain, notes

    def create_module(self, spec):
        create = getattr(self._plain, "create_module", None)
        return create(spec) if create is not None else None

    def exec_module(self, module):
        module.__loader__ = self._plain
        if getattr(module, "__spec__", None) is not None:
            module.__spec__.loader = self._plain
        self._notes.run(self._plain, module)

    def __getattr__(self, name):
        return getattr(self._plain, name)


def _command_line():
    with open("/proc/self/cmdline", "rb") as file:
        return file.read()


def is_installed(spec):
    """Of a package that others have made, as against the program's own files."""
    origin = spec.origin or ""
    return any(folder in origin for folder in _INSTALLED) or spec.name == _LIBRARY or spec.name.startswith(_LIBRARY + ".")


def _surroundings():
    own = [id(one) for one in sys.meta_path if not type(one).__module__.startswith("trimtab")]
    return dict(os.environ), own, [id(one) for one in sys.path_hooks]


def _program_frames():
    """Those of the program's files among the callers."""
    frame = sys._getframe(1)
    while frame is not None:
        if not any(part in frame.f_code.co_filename for part in _OTHERS):
            yield frame
        frame = frame.f_back


def _first_act(file):
    try:
        with open(file, "rb") as source:
            tree = compile(source.read(), file, "exec", _ONLY_AST, True)
    except (OSError, SyntaxError, ValueError):
        return 0
    return next((node.lineno for node in tree.body if _acts(node)), sys.maxsize)


def _acts(node):
    """Whether a statement may do more than import and define names."""
    kind = type(node).__name__
    if kind == "Expr":
        return type(node.value).__name__ != "Constant" and not _searches(node.value)
    if kind in ("Assign", "AnnAssign"):
        targets = getattr(node, "targets", None) or [node.target]
        return any(type(target).__name__ not in ("Name", "Tuple") for target in targets)
    if kind in ("If", "Try"):
        inner = node.body + node.orelse + getattr(node, "finalbody", [])
        return any(map(_acts, inner + [one for handler in getattr(node, "handlers", []) for one in handler.body]))
    return kind not in ("Import", "ImportFrom", "FunctionDef", "AsyncFunctionDef", "ClassDef", "Pass")


def _searches(node):
    """sys.path.append(...) or insert: where it leads is noted."""
    path = getattr(getattr(node, "func", None), "value", None)
    return getattr(path, "attr", "") == "path" and getattr(getattr(path, "value", None), "id", "") == "sys"


def _is_set_up():
    """The program has begun with what a prepared process must not have."""
    distributed, cuda = sys.modules.get("torch.distributed"), sys.modules.get("torch.cuda")
    try:
        return ((distributed is not None and distributed.is_available() and distributed.is_initialized())
                or (cuda is not None and cuda.is_initialized()))
    except Exception:
        return True


# A prepared one.


class _Pace:
    """A finder, asked first, that finds nothing: imports rest in between, until somebody waits for them."""

    def __init__(self, channel, policy):
        import select
        import time

        self._policy, self._now = policy, time.thread_time
        self._poll = select.poll()  # The channel may have any number, which select() does not take.
        self._poll.register(channel, select.POLLIN)
        self._rested = self._now()

    def slow_down(self):
        """To idle priority. The agent raises it when it tells the launch, which may have been before."""
        if self._policy is not None and not self.is_told():
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        if self.is_told():
            self.hurry()

    def is_told(self, rest_s=0.0):
        """The agent has said what this process is to be, or has ended; waited for so long."""
        return bool(self._poll.poll(1000 * rest_s))

    def find_spec(self, name, path=None, target=None):
        took = self._now() - self._rested
        if took < _SLICE_S:
            return None
        if self.is_told(0.0 if self._policy is not None else _PAUSE * took):
            self.hurry()
        self._rested = self._now()
        return None

    def hurry(self):
        """Back at the priority of a bare launch, with all threads."""
        if self._policy is None:
            return
        policy, self._policy = self._policy, None
        for thread in os.listdir("/proc/self/task"):
            try:
                os.sched_setscheduler(int(thread), policy, os.sched_param(0))
            except ProcessLookupError:
                pass  # It has ended meanwhile.


class _Impossible(Exception):
    """Why nothing can be prepared."""


def hold(descriptor, path):
    """Returns when this process is to be a rank. It ends where it cannot be one, or where the agent does not want it."""
    import socket

    channel = socket.socket(fileno=descriptor)
    try:
        notes = _read_notes(path)  # Before the word: a bare launch after it begins them anew.
        channel.sendall(b"here\n")
        _wait(channel, path, notes)
    except BaseException as error:
        _end(channel, f"{type(error).__name__}: {error}" if not isinstance(error, _Impossible) else str(error))


def _end(channel, why):
    try:
        channel.sendall(f"failed {why}\n".encode("utf-8", "replace")[:4000])
    finally:
        os._exit(1)


def _read_notes(path):
    import ast

    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return [ast.literal_eval(line) for line in file.read().splitlines()[1:]]


def _wait(channel, path, notes):
    import ctypes  # Now: without it this process could not be let go.
    import socket
    import time

    libc = ctypes.CDLL(None)
    score = _die_first()
    pace = _Pace(channel, _own_policy())
    pace.slow_down()
    count = _import_all(path, notes, pace)
    pace.hurry()
    took = time.process_time()
    try:
        channel.sendall(f"ready {count} modules in {took:.1f} s of processor time\n".encode())
    except OSError:
        pass  # The agent has told its part already, and listens no more; or it has ended.
    # Two descriptors: the log, and a file with what the launch is told.
    data, ancillary, _flags, _address = channel.recvmsg(1, socket.CMSG_SPACE(8))
    if not data:
        os._exit(0)  # The agent has ended, or needs nobody.
    log, told = (int.from_bytes(ancillary[0][2][at:at + 4], sys.byteorder) for at in (0, 4))
    if libc.prctl(_PARENT_DEATH, 0) != 0:
        raise _Impossible("prctl(PR_SET_PDEATHSIG) failed")
    _set_score(score)
    _take_log(log)
    _take_launch(told)
    channel.close()


def _import_all(path, notes, pace):
    """What the notes say. Nobody but the interpreter sees that it was here."""
    import importlib

    main, searched = sys.modules["__main__"], list(sys.path)
    left_out = _left_out(path)
    sys.meta_path.insert(0, pace)
    count = 0
    for name, program, places in notes:
        if program is not None:
            main.__file__ = program  # Some packages take a process without one for a session at a terminal.
        if places is not None:
            sys.path[:] = places
        if name.partition(".")[0] in left_out:
            continue
        if pace.is_told():
            break  # The program does the rest itself.
        try:
            importlib.import_module(name)
            count += 1
            _check_devices(name, path)
        except BaseException:
            if not pace.is_told():
                raise
            break
    sys.meta_path.remove(pace)
    sys.path[:] = searched
    vars(main).pop("__file__", None)
    return count


def _left_out(path):
    try:
        with open(path + ".not", encoding="utf-8") as file:
            return set(file.read().split())
    except OSError:
        return set()


def _check_devices(name, path):
    """A package that opens a device as it is imported is left to the launch itself: the next attempt passes over it."""
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + descriptor)
        except OSError:
            continue
        if any(device in target for device in _DEVICES):
            package = name.partition(".")[0]
            with open(path + ".not", "a", encoding="utf-8") as file:
                file.write(package + "\n")
            raise _Impossible(f"importing {package} opens {target}: it is left to the launch itself")


def _own_policy():
    """The scheduling policy, where this process may leave it for idle priority and go back; else None."""
    policy, may, done = os.sched_getscheduler(0), [], _thread.allocate_lock()

    def try_it():
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            os.sched_setscheduler(0, policy, os.sched_param(0))
            may.append(True)
        except OSError:
            pass
        finally:
            done.release()

    done.acquire()
    _thread.start_new_thread(try_it, ())  # Priorities are a thread's: one that cannot go back ends with it.
    done.acquire()
    return policy if may else None


def _die_first():
    """Where memory runs out this process ends before any that trains. Gives the score to go back to."""
    with open("/proc/self/oom_score_adj") as file:
        score = file.read().strip()
    for one in (_DIE_FIRST, score, _DIE_FIRST):  # It must be able to go back.
        _set_score(one)
    return score


def _set_score(score):
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(score)


def _take_log(log):
    """What imports have printed comes first in it, as in a bare launch."""
    sys.stdout.flush()
    sys.stderr.flush()
    printed = os.dup(1)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    at = 0
    while True:
        part = os.pread(printed, 1 << 16, at)
        if not part:
            break
        at += len(part)
        while part:
            part = part[os.write(1, part):]
    os.close(printed)


def _texts(file):
    with open(file, "rb") as opened:
        return [os.fsdecode(text) for text in opened.read().split(b"\0")[:-1]]


def _take_launch(told):
    """The number of arguments, these, and the environment, with a zero behind each."""
    os.lseek(told, 0, os.SEEK_SET)
    count, *texts = _texts(told)
    arguments = texts[:int(count)]
    before, now = (dict(text.split("=", 1) for text in all_ if "=" in text) for all_ in (_texts("/proc/self/environ"), texts[int(count):]))
    now.pop("TRIMTAB_IMPORTS", None)
    # What Python and imports have set themselves stays: they would have set it now.
    for name in before.keys() - now.keys():
        os.environ.pop(name, None)
    for name, value in now.items():
        if before.get(name) != value:
            os.environ[name] = value
    sys.argv.extend(arguments)
    getattr(sys, "orig_argv", []).extend(arguments)

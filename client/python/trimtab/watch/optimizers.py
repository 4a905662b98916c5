"""Steps of PyTorch's optimizers: they are a part, and the last one of a step ends it.

Several optimizers (a GAN's two) step in turn: the one that steps least often, and last among those, ends the step.
"""
import functools
import weakref

from . import traced
from .account import ASIDE, BACKWARD, OPTIMIZER
from .losses import losses
from .session import session
from .wrapping import as_part

_PATIENCE = 4  # Times the usual number of another's steps without the one that ends steps: then it is no more.


class Ends:
    """Which optimizer's step ends a step of the training."""

    def __init__(self):
        self._counts = weakref.WeakKeyDictionary()  # Optimizer -> its steps since the choice.
        self._last = lambda: None
        self._since = {}  # id -> steps since the last end.

    def stepped(self, optimizer):
        """Whether the step ends with this."""
        counts, last = self._counts, self._last()
        new = optimizer not in counts
        counts[optimizer] = counts.get(optimizer, 0) + 1
        since = self._since[id(optimizer)] = self._since.get(id(optimizer), 0) + 1
        if optimizer is not last and (last is None or new or counts[optimizer] < counts[last] or self._is_gone(last, since)):
            self._last = weakref.ref(optimizer)
            last = optimizer
        if optimizer is not last:
            return False
        self._since.clear()
        return True

    def _is_gone(self, last, since):
        """The others go on without it."""
        usual = max(count / max(1, self._counts[last]) for count in self._counts.values())
        if since <= _PATIENCE * max(1, usual):
            return False
        self._counts.clear()
        return True


    def optimizers(self):
        return list(self._counts)


ends = Ends()
_making = []  # Functions under way in which optimizers step to make their state.
_late = []  # An optimizer that stepped inside of a backward pass: the step ends behind that.


def _steps_done(optimizer):
    """Those before this one, as the optimizer's state counts them, which a checkpoint has brought back. 0: it counts none."""
    state = next(iter(optimizer.state.values()), None)
    return int(state.get("step", 0)) if isinstance(state, dict) else 0


def before(optimizer):
    """leave() is to take what this returns; 0: it is a step within a step (the scaler's, a superclass's), or one that only makes
    the optimizer's state."""
    if session.inside(OPTIMIZER) or _making:
        return 0
    if not session.is_rank:
        session.begins(_steps_done(optimizer) if session.is_launched else None)
    return session.enter(OPTIMIZER, "optimizer")


def after(depth, optimizer):
    if not depth:
        return
    session.leave(depth)
    if not ends.stepped(optimizer) or not session.knows_ends("optimizers"):
        return
    if session.inside(BACKWARD):
        _late.append(True)
    else:
        session.ends("optimizers")


def after_backward():
    if _late:
        _late.clear()
        session.ends("optimizers")


def around(step, which=lambda arguments: arguments[0]):
    """A method that does a step of the optimizer which(its arguments)."""

    @functools.wraps(step)
    def watched_step(*arguments, **named):
        depth, optimizer = 0, None
        with session.guard("an optimizer's hook"):
            optimizer = which(arguments)
            depth = before(optimizer)
        try:
            return step(*arguments, **named)
        finally:
            with session.guard("an optimizer's hook"):
                after(depth, optimizer)

    watched_step.watched = True
    return watched_step


def only_state(plain):
    """A function in which optimizers step so that their state is there: no step of the training."""
    aside = as_part(plain, ASIDE)

    @functools.wraps(plain)
    def making(*arguments, **named):
        _making.append(plain)
        try:
            return aside(*arguments, **named)
        finally:
            _making.pop()

    return making


_open = []  # What before() returned, for each step that PyTorch's hooks have seen begin.


def _hook_begins(optimizer):
    with session.guard("an optimizer's hook"):
        if not session.inside(OPTIMIZER):
            _open.clear()  # One that raised has no end.
        _open.append(0)
        _open[-1] = before(optimizer)


def _hook_ends(optimizer):
    with session.guard("an optimizer's hook"):
        if _open:
            after(_open.pop(), optimizer)


def optimizer_loaded(module):
    if hasattr(module, "register_optimizer_step_pre_hook"):
        traced.use(_hook_begins, _hook_ends)
        module.register_optimizer_step_pre_hook(traced.before_step)
        module.register_optimizer_step_post_hook(traced.after_step)
        return
    patch = module.Optimizer._hook_for_profile  # PyTorch 1.13 wraps a class's step there, at its first instance.

    @functools.wraps(patch)
    def _hook_for_profile(self):
        patch(self)
        if not getattr(type(self).step, "watched", False):
            type(self).step = around(type(self).step)

    module.Optimizer._hook_for_profile = _hook_for_profile


def scaler_loaded(module):
    """A step that the scaler leaves out, because a gradient is infinite, is one of the training, too."""
    scaler = module.GradScaler
    if "step" not in vars(scaler):
        return  # A subclass of the one that is watched.
    scaler.step = around(scaler.step, lambda arguments: arguments[1])
    scaler.update = as_part(scaler.update, OPTIMIZER)
    scaler.unscale_ = as_part(scaler.unscale_, OPTIMIZER)
    scaler.scale = losses.unscaled(scaler.scale)


def clip_loaded(module):
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        plain = getattr(module, name)
        setattr(module, name, traced.outside(plain, as_part(plain, OPTIMIZER)))

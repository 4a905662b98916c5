"""A function of somebody else, made to count as a part."""
import functools

from .session import session


def as_part(plain, part, name=None):
    """A function that does, returns and raises what `plain` does."""

    @functools.wraps(plain)
    def watched(*arguments, **named):
        depth = session.enter(part, name)
        try:
            return plain(*arguments, **named)
        finally:
            session.leave(depth)

    return watched


def replace(owner, name, make):
    """owner.name becomes make(owner.name), where there is one."""
    plain = getattr(owner, name, None)
    if callable(plain):
        setattr(owner, name, make(plain))

"""A finder that says when a module has been imported. The other finders find it, the user's own among them."""
import sys


class Loader:
    """Stands before a module's own loader for the time of its execution."""

    def __init__(self, plain, loaded):
        self._plain, self._loaded = plain, loaded

    def create_module(self, spec):
        create = getattr(self._plain, "create_module", None)
        return create(spec) if create is not None else None

    def exec_module(self, module):
        # From here on the module looks as if it had been loaded without us.
        module.__loader__ = self._plain
        if getattr(module, "__spec__", None) is not None:
            module.__spec__.loader = self._plain
        self._plain.exec_module(module)
        self._loaded(module)

    def __getattr__(self, name):
        return getattr(self._plain, name)


class Watcher:
    """A finder (sys.meta_path) for the modules of `names`; `loaded(module)` is called when one has been run."""

    def __init__(self, names, loaded):
        self._names, self._loaded = names, loaded

    def find_spec(self, name, path=None, target=None):
        if name not in self._names:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                break
        else:
            return None
        if hasattr(spec.loader, "exec_module"):
            spec.loader = Loader(spec.loader, self._loaded)
        return spec

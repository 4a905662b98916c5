"""Found by Python at its start, because `trimtab run` puts this folder first in PYTHONPATH. It waits for `import torch`,
or for a framework that is going to do so.

Then, and only then, trimtab.watch is loaded. The user's own sitecustomize, which this one hides, runs as it would.
Any Python may come here, so there is nothing in it that is new, and nothing is imported that is not there already.
"""
import os
import sys

_AWAITED = ("torch", "transformers", "accelerate", "lightning", "pytorch_lightning", "deepspeed", "megatron")
_HERE = os.path.dirname(os.path.abspath(__file__))


class _Torch(object):
    """Asked for each module first. Makes way for trimtab.watch when PyTorch or a framework on it is looked for."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in _AWAITED:
            return None
        try:
            place = sys.meta_path.index(cls)
            if _client() not in sys.path:
                sys.path.append(_client())
            from trimtab.watch.imports import Finder

            sys.meta_path[place] = Finder()
        except Exception as error:
            _give_up(error)
            return None
        return sys.meta_path[place].find_spec(name, path, target)


def _client():
    return os.path.dirname(_HERE)


def _give_up(error):
    if _Torch in sys.meta_path:
        sys.meta_path.remove(_Torch)
    try:
        sys.stderr.write("trimtab: this process is not watched: %s: %s\n" % (type(error).__name__, error))
    except Exception:
        pass


def _chain():
    """The sitecustomize that would have been found without this one, under its own name. What it raises is Python's to tell."""
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

    others = [folder for folder in sys.path if os.path.abspath(folder) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if sys.version_info >= (3, 9) and os.environ.get("TRIMTAB_WATCH") == "1" and os.environ.get("TRIMTAB") != "0":
    sys.meta_path.insert(0, _Torch)
if sys.version_info >= (3, 9) and "TRIMTAB_IMPORTS" in os.environ:  # The agent may launch this rank anew.
    try:
        import trimtab_prepared

        trimtab_prepared.begin()
    except Exception:
        if "TRIMTAB_HELD" in os.environ:
            os._exit(1)  # It must not run the program before it is told to.
if sys.version_info >= (3, 4):
    _chain()

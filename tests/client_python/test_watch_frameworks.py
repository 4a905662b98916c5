"""What frameworks' hooks rely on, without the frameworks: tests/frameworks runs those."""
import sys
import types
import unittest

sys.path.insert(0, "client/python")

from trimtab.watch.account import ASIDE, DATA, FORWARD, OTHER, Account
from trimtab.watch.imports import Finder
from trimtab.watch.loaders import Batches
from trimtab.watch.losses import Losses
from trimtab.watch.modules import Modules
from trimtab.watch.session import NoRanges, Session, outer


class Tensor:
    """As much of one as a batch and a loss are asked for."""

    def __init__(self, *shape, value=0.0, made_by=None):
        self.shape, self._value = shape, value
        self.device = types.SimpleNamespace(type="cpu")
        self.grad_fn = types.SimpleNamespace(name=lambda: made_by)

    def is_floating_point(self):
        return False

    def dim(self):
        return len(self.shape)

    def numel(self):
        count = 1
        for size in self.shape:
            count *= size
        return count

    def item(self):
        return self._value


class Iterator:
    """A loader's."""


class Frameworks(unittest.TestCase):
    def test_the_outer_framework_says_where_steps_end(self):
        session = Session({"TRIMTAB_WATCH": "1"})
        self.assertTrue(session.knows_ends("optimizers"))
        session.take_over("deepspeed")
        session.take_over("transformers")
        session.take_over("deepspeed")
        self.assertTrue(session.knows_ends("transformers"))
        self.assertFalse(session.knows_ends("deepspeed") or session.knows_ends("optimizers"))
        self.assertEqual((outer("accelerate", None), outer("accelerate", "lightning")), ("accelerate", "lightning"))

    def test_what_a_framework_fuses_for_itself_is_not_the_users_compiled_code(self):
        for place, may_hook in (("megatron.core.fusions.fused_bias_gelu", True), ("deepspeed.sequence.fpdt_layer", True), ("train", False),
                                ("megatron.corpus", False)):
            modules = Modules()
            modules.compiles(types.FunctionType((lambda x: x).__code__, {"__name__": place}))
            self.assertEqual(modules.may_hook, may_hook, place)

    def test_what_an_evaluation_loads_and_computes_is_its_time(self):
        now = [0]
        account = Account(NoRanges(), clock=lambda: now[0])
        evaluation = account.enter(ASIDE)
        for part in (DATA, FORWARD):
            now[0] += 10
            depth = account.enter(part)
            now[0] += 100
            account.leave(depth)
        account.leave(evaluation)
        now[0] += 1
        _, ns = account.take(account.now())
        self.assertEqual((ns[ASIDE], ns[OTHER], sum(ns)), (220, 1, 221))

    def test_batches_count_as_the_framework_gives_them(self):
        batches = Batches()
        batches.loaded([Tensor(8, 64)], Iterator())  # Read ahead.
        batches.loaded([Tensor(8, 64)], Iterator())
        batches.given({"input_ids": Tensor(8, 64), "labels": Tensor(8)})
        batches.computed([Tensor(4, 64)])
        self.assertEqual(batches.take(), {"count": 8, "tokens": 512})
        batches.computed([Tensor(4, 64)])
        self.assertEqual(batches.take(), {"count": 4, "tokens": 256})

    def test_a_batch_that_is_evaluated_is_not_trained_on(self):
        for add in (lambda batches: batches.given(Tensor(16, 64)), lambda batches: batches.loaded(Tensor(16, 64), Iterator())):
            batches = Batches()
            for _ in range(2):
                add(batches)
                batches.evaluated()
            add(batches)
            self.assertEqual(batches.take(), {"count": 16, "tokens": 1024})
            batches.evaluated()  # The step that took it has ended.
            add(batches)
            self.assertEqual(batches.take(), {"count": 16, "tokens": 1024})

    def test_shares_of_a_loss_are_added_up(self):
        losses = Losses()
        for shares, loss in ((False, 2.0), (True, 4.0)):
            losses.are_shares = shares
            losses.add(Tensor(value=1.0, made_by="CompiledFunctionBackward"))
            losses.add(Tensor(value=3.0, made_by="CompiledFunctionBackward"))
            self.assertEqual(losses.take(), loss)

    def test_a_module_that_is_still_being_imported_is_not_handed_over(self):
        seen = []
        hook = types.ModuleType("ours")
        hook.loaded = lambda module: seen.append(module.__name__)
        names = {"half_imported": True, "imported": False}
        for name, initializing in names.items():
            module = types.ModuleType(name)
            module.__spec__ = types.SimpleNamespace(_initializing=initializing)
            sys.modules[name] = module
            self.addCleanup(sys.modules.pop, name)
        sys.modules["ours"] = hook
        self.addCleanup(sys.modules.pop, "ours")
        Finder({name: ("ours", "loaded") for name in names})
        self.assertEqual(seen, ["imported"])


if __name__ == "__main__":
    unittest.main()

"""Strangers' scripts, unmodified, under the built `trimtab run`. Skipped where nothing is built."""
import unittest

from card_test import CardTest
from framework_job import TORCHRUN
from watched_job import PYTHON

LAUNCHED = (PYTHON, *TORCHRUN)


class Cards(CardTest):
    def test_plain_ddp(self):
        self.assertEqual(self.card("plain_ddp.py", *LAUNCHED)["ranks"], 2)

    def test_fsdp2(self):
        self.assertEqual(self.card("fsdp2.py", *LAUNCHED)["ranks"], 2)

    def test_trainer(self):
        self.assertGreater(self.card("hf_trainer.py", PYTHON)["samples_per_s"], 0)

    def test_accelerate(self):
        self.assertEqual(self.card("accelerated.py", *LAUNCHED)["ranks"], 2)

    def test_lightning(self):
        self.card("lightning_fit.py", PYTHON)

    def test_compiled_model(self):
        self.card("compiled.py", PYTHON, TORCHINDUCTOR_COMPILE_THREADS="1")


if __name__ == "__main__":
    unittest.main()

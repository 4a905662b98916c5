"""Ranges reach the library that the environment names, and nothing else ever fails."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "client", "python"))

from trimtab.ranges import Ranges

# Writes "+name:payload" and "-" to the file that LOG names.
SOURCE = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
static void say(const char* text) { FILE* f = fopen(getenv("LOG"), "a"); fputs(text, f); fclose(f); }
void PUSH(const char* name, int64_t payload) {
  char text[256]; snprintf(text, sizeof text, "PREFIX+%s:%lld\n", name, (long long)payload); say(text); }
void POP(void) { say("PREFIX-\n"); }
"""
COMPILER = shutil.which("cc")


@unittest.skipUnless(COMPILER, "needs a C compiler")
class RangesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="trimtab-ranges-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.with_shim = cls.library("with", "libtrimtab-inject.so", "trimtab_range_push", "trimtab_range_pop", "c")
        cls.library("with", "libtrimtab-nvtx.so", "trimtab_nvtx_push", "trimtab_nvtx_pop", "n")
        cls.alone = cls.library("alone", "libtrimtab-inject.so", "trimtab_range_push", "trimtab_range_pop", "c")

    @classmethod
    def library(cls, folder, name, push, pop, prefix):
        path = os.path.join(cls.folder.name, folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        source = SOURCE.replace("PUSH", push).replace("POP", pop).replace("PREFIX", prefix)
        subprocess.run([COMPILER, "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=source, text=True, check=True)
        return path

    def said(self, environment, work):
        log = os.path.join(self.folder.name, "log")
        open(log, "w", encoding="utf-8").close()
        os.environ["LOG"] = log
        self.addCleanup(os.environ.pop, "LOG", None)
        ranges = Ranges(environment)
        work(ranges)
        with open(log, encoding="utf-8") as file:
            return ranges.backend, file.read().split()

    def one(self, ranges):
        with ranges.range("op/head/forward", 4):
            pass

    def test_the_backend_follows_the_environment_and_the_disk(self):
        injected = {"NVTX_INJECTION64_PATH": self.with_shim}
        cases = [
            ({"TRIMTAB_LIBRARY": self.alone}, "client"),
            ({"TRIMTAB_LIBRARY": self.with_shim}, "client"),
            ({"TRIMTAB_LIBRARY": self.with_shim, **injected}, "nvtx"),
            ({"TRIMTAB_LIBRARY": self.with_shim, "TRIMTAB_RANGES": "nvtx"}, "nvtx"),
            ({"TRIMTAB_LIBRARY": self.with_shim, "TRIMTAB_RANGES": "client", **injected}, "client"),
            ({"TRIMTAB_LIBRARY": self.alone, "TRIMTAB_RANGES": "nvtx"}, "none"),
            ({"TRIMTAB_LIBRARY": "/nowhere/libtrimtab-inject.so"}, "none"),
            ({"TRIMTAB_LIBRARY": __file__}, "none"),
            ({"TRIMTAB_LIBRARY": self.alone, "TRIMTAB": "0"}, "none"),
            ({}, "none"),
        ]
        for environment, wanted in cases:
            with self.subTest(environment=environment):
                backend, said = self.said(environment, self.one)
                self.assertEqual(backend, wanted)
                prefix = wanted[0]
                self.assertEqual(said, [] if wanted == "none" else [f"{prefix}+op/head/forward:4", f"{prefix}-"])

    def test_an_exception_inside_closes_the_range(self):
        def work(ranges):
            with self.assertRaises(KeyError), ranges.range("step", 1):
                raise KeyError

        self.assertEqual(self.said({"TRIMTAB_LIBRARY": self.alone}, work)[1], ["c+step:1", "c-"])

    def test_a_name_or_payload_that_is_none_keeps_the_stack_even(self):
        def work(ranges):
            for name, payload in ((None, 1), ("x", None), ("\ud800", 1), ([], 1)):
                ranges.push(name, payload)
                ranges.pop()

        said = self.said({"TRIMTAB_LIBRARY": self.alone}, work)[1]
        self.assertEqual(said, ["c+invalid-range:0", "c-"] * 4)

    def test_a_forked_child_writes_nothing(self):
        def work(ranges):
            child = os.fork()
            if child == 0:
                with ranges.range("child", 1):
                    os._exit(0)
            os.waitpid(child, 0)
            self.one(ranges)

        self.assertEqual(len(self.said({"TRIMTAB_LIBRARY": self.alone}, work)[1]), 2)


if __name__ == "__main__":
    unittest.main()

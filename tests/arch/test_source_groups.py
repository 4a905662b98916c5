"""Which files cmake/source_groups.py keeps apart, and which it puts together."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "cmake" / "source_groups.py"
CALM = "namespace a {\nint calm() { return 1; }\n}\n"


class SourceGroups(unittest.TestCase):
    def groups(self, lines=100, **files):
        """Files by their names, `_hpp` for `.hpp`: the groups of those that are no headers."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                (pathlib.Path(folder) / name.replace("_", ".")).write_text(text, encoding="utf-8")
            sources = [name.replace("_", ".") for name in files if name.endswith("_cpp")]
            done = subprocess.run([sys.executable, PROGRAM, ".", str(lines), ".", *sources], cwd=folder, stdout=subprocess.PIPE, text=True,
                                  check=True)
            return [line.split() for line in done.stdout.splitlines()]

    def together(self, **files):
        return len(self.groups(**files)) == 1

    def test_files_without_names_of_their_own_meet_until_a_group_is_full(self):
        self.assertEqual(self.groups(x_cpp=CALM, y_cpp=CALM, z_cpp=CALM), [["x.cpp", "y.cpp", "z.cpp"]])
        self.assertEqual(self.groups(lines=7, x_cpp=CALM, y_cpp=CALM, z_cpp=CALM), [["x.cpp", "y.cpp"], ["z.cpp"]])

    def test_the_same_local_name_parts_them(self):
        for local in ("constexpr int kBig = 1;", "int small(int of) { return of; }", "struct Kind { int of; };",
                      "enum class Kind { kOne };", "template <typename T>\nT twice(T of) { return of; }",
                      "const std::vector<int> kAll = {1};"):
            text = f"namespace a {{\nnamespace {{\n{local}\n}}\n}}\n"
            self.assertFalse(self.together(x_cpp=text, y_cpp=text), local)
            self.assertTrue(self.together(x_cpp=text, y_cpp=CALM), local)
        self.assertFalse(self.together(x_cpp="static int one() { return 1; }\n", y_cpp="static int one() { return 2; }\n"))
        self.assertFalse(self.together(x_cpp="#define ONE 1\n", y_cpp="namespace {\nint ONE = 2;\n}\n"))

    def test_the_same_alias_does_not(self):
        self.assertTrue(self.together(x_cpp="namespace {\nusing J = int;\n}\n", y_cpp="namespace {\nusing J = int;\n}\n"))
        self.assertFalse(self.together(x_cpp="namespace {\nusing J = int;\n}\n", y_cpp="namespace {\nusing J = long;\n}\n"))

    def test_names_in_comments_texts_and_bodies_are_nobodys(self):
        local = "namespace {\nint f() { return 1; }\n}\n"
        for text in ("// f()\n", "/* int f() */\n", 'const char* text() { return "f()"; }\n', "int g() { int f = 1; return f; }\n"):
            self.assertTrue(self.together(x_cpp=local, y_cpp=text), text)

    def test_a_call_or_a_header_that_declares_the_name_parts_them(self):
        local = "namespace {\nint open(int of) { return of; }\n}\n"
        self.assertFalse(self.together(x_cpp=local, y_cpp="int g() { return open(1); }\n"))
        self.assertTrue(self.together(x_cpp=local, y_cpp="int g(File f) { return f.open(1); }\n"))
        clock = "namespace a {\nnamespace {\nstruct Clock {};\n}\n}\n"
        header = "namespace a {\nclass Clock;\nint now(Clock of);\n}\n"
        self.assertFalse(self.together(x_cpp=clock, y_cpp='#include "c.hpp"\n', c_hpp=header))

    def test_a_type_of_two_namespaces_is_seen_as_in_its_own_file(self):
        files = {"one_hpp": "namespace a {\nstruct Job {};\n}\n", "two_hpp": "namespace a::api {\nstruct Job {};\n}\n",
                 "x_cpp": '#include "one.hpp"\nusing namespace a;\nJob job();\n'}
        self.assertFalse(self.together(y_cpp='#include "two.hpp"\nusing namespace a::api;\n', **files))
        self.assertTrue(self.together(y_cpp='#include "one.hpp"\nusing namespace a;\n', **files))

    def test_so_is_a_namespace_within_two(self):
        files = {"one_hpp": "namespace a::test {\nint f();\n}\n", "two_hpp": "namespace a::b::test {\nint g();\n}\n"}
        self.assertFalse(self.together(x_cpp='#include "one.hpp"\nusing namespace a;\n',
                                       y_cpp='#include "two.hpp"\nusing namespace a;\nusing namespace a::b;\nint h = test::g();\n', **files))


if __name__ == "__main__":
    unittest.main()

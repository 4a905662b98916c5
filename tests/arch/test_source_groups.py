"""Which files cmake/source_groups.py keeps apart, which it puts together, and which of their names it changes for that."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "cmake" / "source_groups.py"
def included(name):
    return f'#include "{name.replace("_", ".")}"'


CALM = "namespace a {\nint calm() { return 1; }\n}\n"


class SourceGroups(unittest.TestCase):
    def groups(self, lines=100, **files):
        """Files by their names, `_hpp` for `.hpp`: the groups of those that are no headers, as lines of what includes them."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                (pathlib.Path(folder) / name.replace("_", ".")).write_text(text, encoding="utf-8")
            sources = [name.replace("_", ".") for name in files if name.endswith("_cpp")]
            done = subprocess.run([sys.executable, PROGRAM, ".", str(lines), ".", *sources], cwd=folder, stdout=subprocess.PIPE, text=True,
                                  check=True)
            return [line.split("|") for line in done.stdout.splitlines()]

    def together(self, **files):
        """Whether they are one group, in which no name is changed."""
        return [[included(name) for name in files if name.endswith("_cpp")]] == self.groups(**files)

    def changed(self, **files):
        """The names that are changed in the one group that there is; None where there are two."""
        groups = self.groups(**files)
        return None if len(groups) > 1 else [line.split()[1] for line in groups[0] if line.startswith("#define")]

    def test_files_without_names_of_their_own_meet_until_a_group_is_full(self):
        self.assertEqual(self.groups(x_cpp=CALM, y_cpp=CALM, z_cpp=CALM), [[included("x_cpp"), included("y_cpp"), included("z_cpp")]])
        self.assertEqual(self.groups(lines=7, x_cpp=CALM, y_cpp=CALM, z_cpp=CALM), [[included("x_cpp"), included("y_cpp")], [included("z_cpp")]])

    def test_the_same_local_name_is_changed(self):
        for name, local in (("kBig", "constexpr int kBig = 1;"), ("small", "int small(int of) { return of; }"),
                            ("Kind", "struct Kind { int of; };"), ("Kind", "enum class Kind { kOne };"),
                            ("twice", "template <typename T>\nT twice(T of) { return of; }"),
                            ("kAll", "const std::vector<int> kAll = {1};")):
            text = f"namespace a {{\nnamespace {{\n{local}\n}}\n}}\n"
            self.assertEqual(self.changed(x_cpp=text, y_cpp=text), [name], local)
            self.assertTrue(self.together(x_cpp=text, y_cpp=CALM), local)
        self.assertEqual(self.changed(x_cpp="static int one() { return 1; }\n", y_cpp="static int one() { return 2; }\n"), ["one"])

    def test_a_name_is_changed_below_the_headers_and_for_its_file_alone(self):
        text = '#include <vector>\n#include "h.hpp"\nnamespace {\nint one(H of) { return of.one; }\n}\n'
        plain = text.replace("of.one", "1")
        self.assertEqual(self.groups(x_cpp=text, y_cpp=plain, h_hpp="#pragma once\nstruct H {\n  int one;\n};\n"),
                         [[included("x_cpp"), "#include <vector>", included("h_hpp"), "#define one one_in_2", included("y_cpp"), "#undef one"]])

    def test_what_a_change_could_spoil_parts_them(self):
        """A macro, also where others have a local name, a member and a name of a namespace of that name, a header that is not always read."""
        local = "namespace {\nint one() { return 1; }\n}\n"
        for text in (local + "int two(H of) { return of.one; }\n", "#ifdef A\n#include <vector>\n#endif\n" + local,
                     '#include "h.hpp"\n' + local, "using a::one;\n" + local, "#define ONE 1\n" + local):
            self.assertIsNone(self.changed(x_cpp=text, y_cpp=text, h_hpp="namespace a {\nint one(int of);\n}\n"), text)
        self.assertIsNone(self.changed(x_cpp="#define one 1\n", y_cpp=local))

    def test_the_same_alias_does_not(self):
        self.assertTrue(self.together(x_cpp="namespace {\nusing J = int;\n}\n", y_cpp="namespace {\nusing J = int;\n}\n"))
        self.assertEqual(self.changed(x_cpp="namespace {\nusing J = int;\n}\n", y_cpp="namespace {\nusing J = long;\n}\n"), ["J"])

    def test_names_in_comments_texts_and_bodies_are_nobodys(self):
        local = "namespace {\nint f() { return 1; }\n}\n"
        for text in ("// f()\n", "/* int f() */\n", 'const char* text() { return "f()"; }\n', "int g() { int f = 1; return f; }\n"):
            self.assertTrue(self.together(x_cpp=local, y_cpp=text), text)

    def test_a_call_or_a_header_that_declares_it_changes_the_name(self):
        local = "namespace {\nint open(int of) { return of; }\n}\n"
        self.assertEqual(self.changed(x_cpp=local, y_cpp="int g() { return open(1); }\n"), ["open"])
        self.assertTrue(self.together(x_cpp=local, y_cpp="int g(File f) { return f.open(1); }\n"))
        clock = "namespace a {\nnamespace {\nstruct Clock {};\n}\n}\n"
        header = "namespace a {\nclass Clock;\nint now(Clock of);\n}\n"
        self.assertEqual(self.changed(x_cpp=clock, y_cpp='#include "c.hpp"\n', c_hpp=header), ["Clock"])

    def test_a_type_of_two_namespaces_is_seen_as_in_its_own_file(self):
        files = {"one_hpp": "namespace a {\nstruct [[nodiscard]] Job {};\n}\n", "two_hpp": "namespace a::api {\nstruct Job {};\n}\n",
                 "x_cpp": '#include "one.hpp"\nusing namespace a;\nJob job();\n'}
        self.assertFalse(self.together(y_cpp='#include "two.hpp"\nusing namespace a::api;\n', **files))
        self.assertTrue(self.together(y_cpp='#include "one.hpp"\nusing namespace a;\n', **files))
        self.assertTrue(self.together(y_cpp='#include "two.hpp"\na::api::Job other();\n', **files))

    def test_so_is_a_namespace_within_two(self):
        files = {"one_hpp": "namespace a::test {\nint f();\n}\n", "two_hpp": "namespace a::b::test {\nint g();\n}\n"}
        self.assertFalse(self.together(x_cpp='#include "one.hpp"\nusing namespace a;\n',
                                       y_cpp='#include "two.hpp"\nusing namespace a;\nusing namespace a::b;\nint h = test::g();\n', **files))


if __name__ == "__main__":
    unittest.main()

"""Whatever `trimtab doctor` can find wrong has its line in the runbook, which leads to a section that is there."""

import re
import unittest

from installation import ROOT

SOURCES = [*sorted((ROOT / "cli/src").glob("doctor_*.cpp")), ROOT / "cli/src/verb_doctor.cpp",
           ROOT / "coordinator/src/server_databases.cpp"]
NAMES = (r'"([^"\n]+)",\s*Health::k(?:Warn|Fail)', r'std::string name = "([^"]+)";', r'restricted\("([^"]+)"',
         r'check_library\("([^"]+)"', r'check_directory\("([^"]+)"', r'push_back\(\{"(\w+_database)"')


def names_of_checks():
    text = "\n".join(path.read_text() for path in SOURCES)
    return {name for pattern in NAMES for name in re.findall(pattern, text)}


class Runbook(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = (ROOT / "docs/operating.md").read_text()
        cls.rows = re.findall(r"^\| (`.*) \| .* \| (.*) \|$", text[text.index("| what doctor names |"):], re.MULTILINE)
        cls.sections = set(re.findall(r"^#+ (.*)$", text, re.MULTILINE))

    def test_every_check_has_its_line(self):
        named = {name.split(": ")[-1] for checks, _ in self.rows for name in re.findall(r"`([^`]+)`", checks)}
        checks = names_of_checks()
        self.assertGreater(len(checks), 40)
        self.assertEqual({name for name in checks if name.strip() not in named | {"port"}}, set())

    def test_every_line_leads_to_a_section(self):
        wanted = {title for _, where in self.rows for title in re.findall(r'"([^"]+)"', where)}
        self.assertGreater(len(wanted), 20)
        self.assertEqual(wanted - self.sections, set())

    def test_what_doctor_refers_to_is_there(self):
        text = re.sub(r'"\s*\n\s*"', "", "\n".join(path.read_text() for path in SOURCES))
        titles = set(re.findall(r"docs/operating\.md, '([^']+)'", text))
        self.assertGreater(len(titles), 5)
        self.assertEqual(titles - self.sections, set())


if __name__ == "__main__":
    unittest.main()

"""Whatever `trimtab doctor` can find wrong has its line in the runbook, which leads to a section that is there; its commands
and alerts are there, too."""

import functools
import re
import shlex
import subprocess
import unittest

import yaml

from installation import ROOT, TRIMTAB
from metric_pages import ALERTS

MANUAL = ROOT / "docs/operating.md"

SOURCES = [*sorted((ROOT / "cli/src/doctor").glob("*.cpp")), ROOT / "cli/src/verbs/doctor.cpp",
           ROOT / "coordinator/src/daemon.cpp"]
NAMES = (r'"([^"\n]+)",\s*Health::k(?:Warn|Fail)', r'std::string name = "([^"]+)";', r'restricted\("([^"]+)"',
         r'check_library\("([^"]+)"', r'check_directory\("([^"]+)"', r'push_back\(\{"(\w+_database)"')


def names_of_checks():
    text = "\n".join(path.read_text() for path in SOURCES)
    return {name for pattern in NAMES for name in re.findall(pattern, text)}


class Runbook(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = MANUAL.read_text()
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

    def test_every_alert_that_is_named_is_there(self):
        named = set(re.findall(r"`(Trimtab[A-Z]\w+)`", MANUAL.read_text()))
        rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
        self.assertGreater(len(named), 5)
        self.assertEqual(named - {rule["alert"] for rule in rules}, set())


def commands_of(text):
    """The words after `trimtab` of each command in backticks and in indented blocks, whoever it is run as."""
    lines = re.findall(r"^    (.*)$", text, re.MULTILINE)
    quoted = [" ".join(words.split()) for words in re.findall(r"`([^`]+)`", re.sub(r"^    .*$", "", text, flags=re.MULTILINE))]
    for command in lines + quoted:
        words = shlex.split(command, comments=True) if "trimtab" in command else []
        if words[:1] == ["runuser"]:
            words = words[words.index("--") + 1:]
        if words[:1] == ["trimtab"] and len(words) > 1:
            yield words[1:]


class Help:
    """What `trimtab VERB [PART] --help` says of itself; one object for each verb."""

    @classmethod
    @functools.cache
    def of(cls, *verb):
        return cls(*verb)

    def __init__(self, *verb):
        done = subprocess.run([str(TRIMTAB), *verb, "--help"], capture_output=True, text=True, timeout=60)
        # Of a verb that is not there it says what there is.
        self.text = done.stdout if f"Usage: trimtab {' '.join(verb)} " in done.stdout else ""

    def section(self, title):
        found = re.search(rf"^{title}:\n((?:  .*\n)*)", self.text, re.MULTILINE)
        return found.group(1).splitlines() if found else []

    def parts(self):
        return {line.split()[0] for line in self.section("Subcommands")}

    def operands(self):
        """Those that are needed."""
        return {line.split()[0] for line in self.section("Positionals") if line.endswith("(required)")}

    def flags(self):
        return {flag for line in self.section("Options") for flag in re.findall(r"^  (?:-\w,)?(--[a-z-]+)", line)}

    def needed(self):
        """The flags without which nothing goes; one that is an operand's other name is not."""
        needed = {flag for line in self.section("Options") if line.endswith("(required)") for flag in re.findall(r"--[a-z-]+", line)[:1]}
        return needed - {f"--{operand}" for operand in self.operands()}


def faults(words):
    """What `trimtab` would say of the command; nothing where it takes it. A verb alone, without arguments, only names it."""
    verb = words[:1]
    if Help.of(*verb).parts() and len(words) > 1:
        verb = words[:2]
    known = Help.of(*verb)
    if not known.text:
        return [f"there is no {' '.join(verb)}"]
    arguments = words[len(verb):]
    if "--" in arguments:  # What follows is another program's.
        arguments = [*arguments[:arguments.index("--")], *["COMMAND"] * bool(known.operands())]
    given = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    missing = known.needed() - given if arguments else set()
    # The value of a flag counts as one: enough to find an operand that is not there at all.
    too_few = arguments and len(arguments) < len(known.operands())
    return [*sorted(given - known.flags()), *(f"needs {flag}" for flag in sorted(missing)), *(["needs more operands"] if too_few else [])]


class Commands(unittest.TestCase):
    def test_every_command_is_one_that_the_program_takes(self):
        for page in (MANUAL, ROOT / "docs/security.md", ROOT / "docs/slurm.md"):
            commands = list(commands_of(page.read_text()))
            self.assertGreater(len(commands), 4, page)
            self.assertEqual([(" ".join(words), faults(words)) for words in commands if faults(words)], [], page)

    def test_one_that_it_does_not_take_would_be_found(self):
        for text, fault in (("`trimtab cert issue node NAME --tenant TENANT`", "needs --dir"),
                            ("    trimtab token add NAME --role agent\n", "needs --tokens"),
                            ("    runuser -u ana -- trimtab status --colour\n", "--colour"),
                            ("`trimtab db\nmerge all.db`", "needs more operands"), ("`trimtab kill`", "there is no kill")):
            (words,) = commands_of(text)
            self.assertEqual(faults(words), [fault], text)
        self.assertEqual(faults(["tune", "job.toml"]), [])


if __name__ == "__main__":
    unittest.main()

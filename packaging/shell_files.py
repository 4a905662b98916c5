"""Writes what a shell and `man` know of the programs: completion files and manual pages, from the programs' own help.

Usage: shell_files.py PROGRAMS OUT      PROGRAMS: the folder of the built programs. Needs help2man.
"""
import gzip
import pathlib
import re
import subprocess
import sys

PROGRAMS = {"trimtab": "profile, predict and tune the plan of a training job",
            "trimtab-agent": "the node daemon of Trimtab",
            "trimtab-coordinator": "the cluster daemon of Trimtab"}
COMPLETIONS = {"bash": "bash-completion/completions/trimtab", "zsh": "zsh/vendor-completions/_trimtab"}


def said(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def verbs(trimtab):
    """Name and description of each, as `trimtab --help` lists them."""
    listed = said(trimtab, "--help").split("Subcommands:")[-1]
    return dict(re.findall(r"^  ([a-z][a-z-]*)\s{2,}(\S.*)$", listed, re.M))


def write_page(out, command, name, summary, version):
    """A page of the command with its words in front of --help."""
    page = said("help2man", "--no-info", "--section=1", f"--name={summary}", f"--version-string={version}", command)
    page = page.replace(".TH TRIMTAB ", f".TH {name.upper()} ", 1)
    place = out / "man" / "man1" / f"{name}.1.gz"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(gzip.compress(page.encode(), mtime=0))


def main():
    programs, out = map(pathlib.Path, sys.argv[1:3])
    trimtab = programs / "trimtab"
    version = said(trimtab, "--version").split()[-1]
    for name, summary in PROGRAMS.items():
        write_page(out, str(programs / name), name, summary, version)
    for verb, summary in verbs(trimtab).items():
        write_page(out, f"{trimtab} {verb}", f"trimtab-{verb}", summary, version)
    for shell, place in COMPLETIONS.items():
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        (out / place).write_text(said(trimtab, "completion", shell))
    return 0


if __name__ == "__main__":
    sys.exit(main())

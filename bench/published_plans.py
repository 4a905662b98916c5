#!/usr/bin/env python3
"""Scores estimates of plans against published measurements.

Usage: bench/published_plans.py --plans FILE.csv --out DIR [--trimtab build/release/bin/trimtab] [--markdown docs/accuracy.md]

FILE has the columns of a table of published plans (docs/accuracy.md). Each row is a question for `trimtab plan estimate`,
with nothing measured in it (bench/scoreboard/published_rows.py says what is taken for what a row leaves open). Writes
DIR/score.json, whose members bench/scoreboard/published_scores.py explains, and DIR/index.html, a page for people.
--markdown FILE also writes the page as Markdown, with its pictures in a folder of FILE's name. Standard library only.
"""

import argparse
import json
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench" / "scoreboard"))

from published_answers import estimates  # noqa: E402
from published_document import html, markdown  # noqa: E402
from published_given import given_one  # noqa: E402
from published_report import report  # noqa: E402
from published_rows import read_rows  # noqa: E402
from published_scores import score  # noqa: E402


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--plans", required=True, help="a table of published plans")
    arguments.add_argument("--out", required=True, help="a directory for score.json and index.html")
    arguments.add_argument("--trimtab", default=str(ROOT / "build/release/bin/trimtab"))
    arguments.add_argument("--markdown", help="a file, such as docs/accuracy.md")
    given = arguments.parse_args()
    if shutil.which(given.trimtab) is None:
        sys.exit(f"{given.trimtab}: needs trimtab's program, found none. Build it with scripts/setup release trimtab, or name it with --trimtab")
    rows = read_rows(given.plans)
    command = [given.trimtab, "plan", "estimate"]
    answers = estimates(rows, command)
    out = pathlib.Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    result = {**score(rows, answers), "given_one": given_one(rows, answers, command)}
    (out / "score.json").write_text(json.dumps(result, indent=1) + "\n")
    shown = f"bench/published_plans.py --plans {pathlib.Path(given.plans).name} --out DIR"
    parts = report(rows, answers, result, shown)
    (out / "index.html").write_text(html(parts, "Estimates beside published measurements"))
    if given.markdown:
        file = pathlib.Path(given.markdown)
        file.write_text(markdown(parts, file.with_suffix("")))
    asked = [answer for row, answer in zip(rows, answers) if row.question is not None]
    if asked and all("error" in answer for answer in asked):
        sys.exit(f"no row has an answer. The first says: {asked[0]['error']}")


if __name__ == "__main__":
    main()

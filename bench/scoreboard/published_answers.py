"""Asks `trimtab plan estimate` for all rows: one process, a question a line, an answer a line."""

import json
import re
import pathlib
import subprocess
import tempfile

RESTARTS = 20  # after a question that ends the program


def estimates(rows, command):
    """Of each row its answer, a dict. One without an estimate has the member "error"."""
    answers = [{"error": row.refusal} if row.question is None else None for row in rows]
    waiting = [index for index, row in enumerate(rows) if row.question is not None]
    for _ in range(RESTARTS):
        if not waiting:
            break
        lines, ended = _ask([rows[index].question for index in waiting], command)
        for index, line in zip(waiting, lines):
            answers[index] = _parsed(line)
        waiting = waiting[len(lines) :]
        if waiting:
            answers[waiting[0]] = {"error": f"the program gave no answer: {ended}"}
            waiting = waiting[1:]
    return [answer or {"error": "the program was not asked: it had ended too often"} for answer in answers]


def _ask(questions, command):
    """The lines that came back, and how the program ended."""
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory) / "questions.jsonl"
        file.write_text("".join(json.dumps(question) + "\n" for question in questions))
        try:
            with open(file) as standard_input:
                done = subprocess.run(
                    [*command, str(file)], stdin=standard_input, capture_output=True, text=True, errors="replace"
                )
        except OSError as problem:
            return [], str(problem)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    said = done.stderr.strip().splitlines()
    return lines[: len(questions)], f"exit code {done.returncode}" + (f", {said[-1]}" if said else "")


def _parsed(line):
    try:
        answer = json.loads(line)
        if "error" in answer:
            error = answer["error"]
            error = error if isinstance(error, str) else json.dumps(error)
            return {"error": re.sub(r"^\S*questions\.jsonl:\d+: ", "", error)}
        if float(answer["step_s"]) > 0:
            return answer
        return {"error": f"a step of {answer['step_s']} s"}
    except (ValueError, TypeError, LookupError) as problem:
        return {"error": f"the answer cannot be read: {problem}"}

"""What the ranks of a job logged of their steps, and what must hold of it whatever happened to the job.

A rank's program has images: a new one with each launch, and with each retreat to the plan before. In an image steps
follow each other; an image begins at most `bound` steps before the one that was due; all ranks of an image begin alike
and run each step under one plan; a step that is run again sees the same samples and has the same loss, up to rounding.
"""
import json
import os

TOLERANCE = 1e-3  # Of a loss: the order of sums alone may move it so much.


class StepLogs:
    def __init__(self, paths, bound):
        """`paths`: of each rank's log, which may not exist yet."""
        self._paths, self._bound = list(paths), bound
        self._read = [0] * len(self._paths)
        self._images = {}  # (launch, attempt) -> {rank: [first step, last step]}
        self._ran = {}  # (launch, attempt, step) -> line of the first rank that was seen.
        self._steps = {}  # step -> line of the first time.
        self._due = 0  # Before what is read now.
        self.last = [None] * len(self._paths)  # Line of each rank.
        self.problems = []
        self.most_replayed = self.replayed = self.lines = self.changes = 0
        self.split_changes = 0  # Of the changes: from or to a plan with tensor-parallel ranks.

    def add_figures(self, earlier):
        """Those of an earlier run's logs, so that the last one's are of all."""
        for name in ("replayed", "lines", "changes", "split_changes"):
            setattr(self, name, getattr(self, name) + getattr(earlier, name))
        self.most_replayed = max(self.most_replayed, earlier.most_replayed)

    def read(self):
        """Take in what was written since; what is wrong with it is added to `problems`."""
        fresh = [(rank, line) for rank in range(len(self._paths)) for line in self._new_lines(rank)]
        # In the order in which images follow each other, so that what was due before one is known when it begins.
        fresh.sort(key=lambda entry: (_image(entry[1]), entry[1]["step"], entry[0]))
        for rank, line in fresh:
            self._take(rank, line)

    def _new_lines(self, rank):
        if not os.path.exists(self._paths[rank]):
            return []
        with open(self._paths[rank], "rb") as file:
            file.seek(self._read[rank])
            text = file.read()
        whole = text.rfind(b"\n") + 1  # The last line may be in the middle of its writing.
        self._read[rank] += whole
        return [json.loads(line) for line in text[:whole].splitlines()]

    def _take(self, rank, line):
        image, step = _image(line), line["step"]
        ranks = self._images.setdefault(image, {})
        if rank not in ranks:
            self._begin(rank, line, ranks)
        elif step != ranks[rank][1] + 1:
            self._wrong(rank, line, f"follows step {ranks[rank][1]}")
        else:
            ranks[rank][1] = step
        self._compare(rank, line)
        last = self.last[rank]
        if rank == 0 and last and last["plan"] != line["plan"]:
            self.changes += 1
            self.split_changes += max(last["tensor_parallel"], line["tensor_parallel"]) > 1
        self._due = max(self._due, step + 1)
        self.last[rank] = line
        self.lines += 1

    def _begin(self, rank, line, ranks):
        step = line["step"]
        if not ranks:
            replayed = self._due - step
            self.most_replayed = max(self.most_replayed, replayed)
            self.replayed += max(replayed, 0)
            if replayed < 0:
                self._wrong(rank, line, f"comes although step {self._due} was due: a step is lost")
            if replayed > self._bound:
                self._wrong(rank, line, f"is {replayed} steps before {self._due}, which was due; {self._bound} may be")
        elif step != next(iter(ranks.values()))[0]:
            self._wrong(rank, line, f"begins the launch, another rank began at {next(iter(ranks.values()))[0]}")
        ranks[rank] = [step, step]

    def _compare(self, rank, line):
        step = line["step"]
        other = self._ran.setdefault((*_image(line), step), line)
        for key in ("plan", "epoch", "samples", "loss"):
            if line[key] != other[key]:
                self._wrong(rank, line, f"has {key} {line[key]}, on another rank {other[key]}")
        first = self._steps.setdefault(step, line)
        if line["samples"] != first["samples"]:
            self._wrong(rank, line, f"saw samples {line['samples']}, and {first['samples']} the first time")
        if abs(line["loss"] - first["loss"]) > TOLERANCE * abs(first["loss"]):
            self._wrong(rank, line, f"has loss {line['loss']}, and {first['loss']} the first time")

    def _wrong(self, rank, line, what):
        self.problems.append(f"rank {rank}, launch {line['launch']}.{line['attempt']}: step {line['step']} {what}")


def _image(line):
    return int(line["launch"]), line["attempt"]

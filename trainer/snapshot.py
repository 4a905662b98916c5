"""Snapshots on disk: every element's state once, by operator, so that any plan can be resumed from any other's.

    DIR/step-00000040.0/rank0.state ... rankN.state   raw [3, n] float32 tensors, one after the other: values, moments
    DIR/step-00000040.0/manifest.json                 which elements of which operator lie where, with their checksums;
                                                      written last

A snapshot without a manifest does not exist. Files are written under a temporary name, flushed to the disk, read back
and compared, then renamed. All ranks call save() and load() together; DIR must be the same place for all of them.
"""
import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import re
import shutil

import torch

import intervals
from config import ModelConfig
from errors import OutsideFailure
from holding import ELEMENT_BYTES, of_rank
from operator_state import MOMENTS, Values

SCHEMA = "trimtab.snapshot/2"
_ROWS = 1 + MOMENTS
KEPT = 2
_NAME = re.compile(r"step-(\d{8})\.(\d+)")
_MANIFEST = "manifest.json"


@dataclasses.dataclass
class Snapshot:
    step: int  # Steps done: the next to run.
    values: dict  # Operator index -> Values, for the operators of this rank's stage.


class SnapshotStore:
    def __init__(self, directory, rank, groups, specs, config):
        self._directory, self._rank, self._groups = directory, rank, groups
        self._specs, self._config = specs, config

    def save(self, step, plan, states):
        """Write the state of all operators as of before `step`; when it returns, every rank's part is verified.

        `states`: what this rank has in hand, with .spec and .values.
        """
        name = self._groups.gather_objects(self._unused_name(step) if self._rank == 0 else None)[0]
        failure, entries = None, []
        try:
            entries = self._write_part(name, states)
        except OSError as error:
            failure = f"rank {self._rank}: cannot write a snapshot in {self._directory}: {error.strerror or error}"
        parts = self._groups.gather_objects((failure, entries))
        if self._rank == 0 and not any(failed for failed, _ in parts):
            try:
                self._write_manifest(name, step, plan, [entry for _, part in parts for entry in part])
            except OSError as error:
                failure = f"rank 0: cannot write a manifest in {self._directory}: {error.strerror or error}"
        failures = [failed for failed in self._groups.gather_objects(failure) if failed]
        if failures:
            raise OutsideFailure(f"{failures[0]}; free the disk or choose another --snapshots folder")
        self._check_shared(name, [part for _, part in parts])
        if self._rank == 0:
            with contextlib.suppress(OSError):  # The next one tries again.
                self._prune()

    def load(self, plan, device):
        """This rank's part, under `plan`, of the newest snapshot that every rank can read and verify, if there is one.

        Raises OutsideFailure where snapshots exist and none of them is whole: starting anew would lose the work.
        """
        names = self._groups.gather_objects(self._complete() if self._rank == 0 else None)[0]
        for name in reversed(names):
            snapshot, why = None, ""
            try:
                snapshot = self._read(name, plan, device)
            except (OSError, ValueError, KeyError, TypeError) as error:
                why = f"{name}: {error}"
            problems = [problem for problem in self._groups.gather_objects(why) if problem]
            if not problems:
                return snapshot
            if self._rank == 0:
                print(f"snapshot passed over: {problems[0]}", flush=True)
        if names:
            raise OutsideFailure(
                f"{self._directory}: none of {len(names)} snapshots is readable; move the folder away to start anew")
        return None

    def _check_shared(self, name, parts):
        """What each rank wrote into a folder of its own, no rank could load: then there is no snapshot, and it is said now."""
        folder = os.path.join(self._directory, name)
        unseen = [words for words in self._groups.gather_objects(self._unseen(folder, parts)) if words]
        if not unseen:
            return
        shutil.rmtree(folder, ignore_errors=True)  # Nobody else would: they fill the disk with each attempt.
        raise OutsideFailure(f"{unseen[0]}: --snapshots must be one folder for all ranks; on several nodes name one in "
                             "job.toml (commands.train) that all of them share, not {scratch}, which is each node's own")

    def _unseen(self, folder, parts):
        """What this rank does not find of that which others wrote: the manifest, and the part of the rank after it."""
        other = (self._rank + 1) % len(parts)
        file_name = f"rank{other}.state"
        if not os.path.exists(os.path.join(folder, _MANIFEST)):
            return f"rank {self._rank}: finds no {_MANIFEST} in {folder}, which rank 0 has written"
        try:
            found = os.path.getsize(os.path.join(folder, file_name))
        except OSError:
            return f"rank {self._rank}: finds no {file_name} in {folder}, which rank {other} has written"
        if found != sum(entry["bytes"] for entry in parts[other]):
            return f"rank {self._rank}: finds another {file_name} in {folder} than rank {other} has written"
        return ""

    def _unused_name(self, step):
        names = (f"step-{step:08}.{number}" for number in itertools.count())
        return next(name for name in names if not os.path.exists(os.path.join(self._directory, name)))

    def _write_part(self, name, states):
        folder = os.path.join(self._directory, name)
        os.makedirs(folder, exist_ok=True)
        file_name = f"rank{self._rank}.state"
        path = os.path.join(folder, file_name)
        entries, offset = [], 0
        with open(path + ".tmp", "wb") as file:
            for state in states:
                for begin, end, pieces in _contents(state.values):
                    length, digest = 0, _digest()
                    for piece in pieces:
                        file.write(piece)
                        digest.update(piece)
                        length += len(piece)
                    entries.append({"operator": state.spec.name, "begin": begin, "end": end, "file": file_name,
                                    "offset": offset, "bytes": length, "checksum": digest.hexdigest()})
                    offset += length
            file.flush()
            os.fsync(file.fileno())
        with open(path + ".tmp", "rb") as file:
            for entry in entries:
                if _checksum_of_file(file, entry["bytes"]) != entry["checksum"]:
                    raise OSError(f"{entry['operator']} reads back differently")
        os.rename(path + ".tmp", path)
        _flush_folder(folder)
        return entries

    def _write_manifest(self, name, step, plan, entries):
        folder = os.path.join(self._directory, name)
        manifest = {"schema": SCHEMA, "model": self._config.name, "step": step, "plan": plan.document,
                    "model_config": dataclasses.asdict(self._config), "operators": entries}
        path = os.path.join(folder, _MANIFEST)
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            json.dump(manifest, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(path + ".tmp", path)
        _flush_folder(folder)
        _flush_folder(self._directory)

    def _folders(self):
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return []
        ordered = [(int(match[1]), int(match[2]), match[0]) for match in map(_NAME.fullmatch, names) if match]
        return [name for _, _, name in sorted(ordered)]

    def _complete(self):
        """Names of the snapshots with a manifest, oldest first."""
        return [name for name in self._folders() if os.path.exists(os.path.join(self._directory, name, _MANIFEST))]

    def _prune(self):
        """Only complete snapshots count towards those kept; what was left unfinished goes too."""
        kept = self._complete()[-KEPT:]
        for name in self._folders():
            if name not in kept:
                shutil.rmtree(os.path.join(self._directory, name), ignore_errors=True)

    def _read(self, name, plan, device):
        folder = os.path.join(self._directory, name)
        with open(os.path.join(folder, _MANIFEST), encoding="utf-8") as file:
            manifest = json.load(file)
        if manifest["schema"] != SCHEMA:
            raise ValueError(f"schema is {manifest['schema']}, this trainer reads {SCHEMA}")
        if ModelConfig(**manifest["model_config"]) != self._config:
            raise ValueError("written for another model configuration")
        entries = {}
        for entry in manifest["operators"]:
            entries.setdefault(entry["operator"], []).append(entry)
        values = {}
        for spec in self._specs:
            holding = of_rank(plan, self._rank, spec, self._config)
            if holding is not None:
                values[spec.index] = self._read_operator(folder, entries[spec.name], spec, holding, device)
        return Snapshot(int(manifest["step"]), values)

    def _read_operator(self, folder, entries, spec, holding, device):
        values, found, found_moments = Values(holding, device), 0, 0
        for entry in entries:
            here = ((entry["begin"], entry["end"]),)
            kept = intervals.common(holding.parameters, here)
            owned = intervals.common(holding.owned, here)
            if not kept and not owned:
                continue
            content = _read_entry(folder, entry, spec)
            for to, at, length in kept:
                values.parameters[to : to + length] = content[0, at : at + length]
            for to, at, length in owned:
                values.moments[:, to : to + length] = content[1:, at : at + length]
            found += sum(length for _, _, length in kept)
            found_moments += sum(length for _, _, length in owned)
        if (found, found_moments) != (intervals.size(holding.parameters), intervals.size(holding.owned)):
            raise ValueError(f"{spec.name} is not all there")
        return values


def _contents(values):
    """(begin, end, pieces of bytes) of the elements that this rank answers for; on a CPU nothing is copied."""
    holding = values.holding
    for begin, end in holding.unique:
        rows = ((values.parameters, holding.parameters), *((row, holding.owned) for row in values.moments))
        yield begin, end, (memoryview(flat[at : at + length].cpu().numpy()).cast("B") for flat, held in rows
                           for at, _, length in intervals.common(held, ((begin, end),)))


def _read_entry(folder, entry, spec):
    """The entry's [3, n] tensor, verified."""
    wanted = ELEMENT_BYTES * _ROWS * (entry["end"] - entry["begin"])
    if entry["bytes"] != wanted:
        raise ValueError(f"{spec.name} has {entry['bytes']} bytes, needs {wanted}")
    with open(os.path.join(folder, os.path.basename(entry["file"])), "rb") as file:
        file.seek(entry["offset"])
        content = bytearray(wanted)
        if file.readinto(content) != wanted:
            raise ValueError(f"{entry['file']} is too short")
    if _digest(content).hexdigest() != entry["checksum"]:
        raise ValueError(f"{spec.name} in {entry['file']} does not match its checksum")
    return torch.frombuffer(content, dtype=torch.float32).view(_ROWS, -1)


def _digest(content=b""):
    return hashlib.blake2b(content, digest_size=16)


def _checksum_of_file(file, length):
    """Of the next `length` bytes, in pieces: the check must not cost the memory of what it checks."""
    digest = _digest()
    while length:
        piece = file.read(min(length, 1 << 20))
        if not piece:
            break
        digest.update(piece)
        length -= len(piece)
    return digest.hexdigest()


def _flush_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

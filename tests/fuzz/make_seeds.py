#!/usr/bin/env python3
"""Writes the seeds that no editor can: messages, rings, tables and databases, into corpus/ beside this file. What it writes is
committed; it runs again when a format changes."""

import json
import pathlib
import re
import sqlite3
import struct
import tempfile

CORPUS = pathlib.Path(__file__).parent / "corpus"
NOW_NS = 1_700_000_000_000_000_000


def put(target: str, name: str, data: bytes) -> None:
    assert len(data) <= 12288, f"{target}/{name} has {len(data)} bytes"
    directory = CORPUS / target
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(data)


# Protobuf's wire format.
def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def message(fields: dict) -> bytes:
    """Field number to an int (varint), a float (double), text, bytes (a message, too), or a list of these."""
    out = b""
    for number, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, int):
                out += varint(number << 3) + varint(value)
            elif isinstance(value, float):
                out += varint(number << 3 | 1) + struct.pack("<d", value)
            else:
                data = value.encode() if isinstance(value, str) else value
                out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def fixed64(number: int, value: int) -> bytes:
    """A field of that type, to be joined to a message."""
    return varint(number << 3 | 1) + struct.pack("<Q", value)


PLAN = (
    '{"schema":"trimtab.plan/1","model":"m","global_batch":8,"microbatch":2,'
    '"stages":[{"devices":[0,1],"segments":[{"operators":[0,2],"dp":2}]}]}'
)
MODEL = (
    '{"schema":"trimtab.model/1","name":"m","global_batch":8,"dtype":"float32","operators":['
    '{"name":"a","kind":"linear","layer":0,"cost_key":"a-key","parameter_bytes":8},{"name":"b","kind":"linear","layer":1}]}'
)
JOB = (
    '{"schema":"trimtab.job/1","name":"job","world_size":2,"steps":40,"target":"ddp","commands":{"describe":["d"],'
    '"benchmark":["b","{rank}"],"train":["t","--plan","{plan}"]},"model_json":' + json.dumps(MODEL) + "}"
)
STATISTICS = "1;3;2001;2000001;0;1000;-1:1,349:2"
KEY = '{"kind":"operator_forward","subject":"a-key","dtype":"float32","samples":2,"tp":1,"sharding":"default"}'


def fnv1a(data: bytes) -> int:
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return state


def nccl_table(entries: list) -> bytes:
    """schema/nccl_table.hpp; an entry is (min, max, ranks, spread, function, algorithm, protocol, channels)."""
    body = b"".join(struct.pack("<QQIIBBBBI", *entry, 0) for entry in entries)
    head = struct.pack("<QIIIIQ", 0x4C42544E_4D495254, 1, 40, 32, len(entries), 1)
    return head + struct.pack("<Q", spread(fnv1a(head + bytes(8) + body))) + body


def spread(bits: int) -> int:
    """As schema/nccl.hpp does."""
    mask = (1 << 64) - 1
    bits = (bits + 0x9E3779B97F4A7C15) & mask
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & mask
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & mask
    return bits ^ bits >> 31


def write_nccl_tables() -> None:
    put("nccl_table", "empty", nccl_table([]))
    choices = [(0, 1023, 2, 0, 4, 1, 0, 2), (1024, 1 << 40, 2, 0, 4, 1, 2, 8), (0, 1 << 20, 8, 1, 4, 0, 1, 0)]
    put("nccl_table", "three_choices", nccl_table(choices))
    put("nccl_table", "overlapping", nccl_table([choices[0], choices[0]]))
    put("nccl_table", "cut", nccl_table(choices)[:-7])
    put("nccl_table", "damaged", nccl_table(choices)[:-1] + b"\x01")


def write_agent_commands() -> None:
    def to_agent(field: int, body: bytes) -> bytes:
        return message({field: body})

    def command(field: int, body: bytes) -> bytes:
        return to_agent(4, message({1: 7, field: body}))

    put("agent_commands", "welcome", to_agent(1, message({1: 1, 2: "0.1.0", 3: 2000, 4: "c0"})))
    put("agent_commands", "refused", to_agent(2, message({1: "node name n0 is taken"})))
    put("agent_commands", "batch_ack", to_agent(3, message({1: 4})))
    put("agent_commands", "describe", command(2, message({1: JOB})))
    requests = '{"schema":"trimtab.benchmark_requests/1","items":[{"kind":"operator","cost_key":"a-key"}]}'
    put("agent_commands", "benchmark", command(3, message({1: JOB, 2: requests, 3: 0, 4: "file:///r", 5: 60.0})))
    launch = {1: JOB, 2: PLAN, 3: [0, 1], 4: "file:///r", 5: 1, 6: 3, 9: 10}
    put("agent_commands", "launch", command(4, message(launch)))
    table = nccl_table([(0, 1023, 2, 0, 4, 1, 0, 2)])
    nodes = [message({1: "n0", 2: 2}), message({1: "n1", 2: 2})]
    put("agent_commands", "launch_with_table", command(4, message(launch | {30: table, 31: nodes})))
    put("agent_commands", "kill", command(5, message({1: "job", 2: 1})))
    put("agent_commands", "propose", to_agent(5, message({1: "job", 2: 4, 3: PLAN, 4: 1})))
    put("agent_commands", "commit", to_agent(6, message({1: "job", 2: 4, 3: 50})))
    put("agent_commands", "trace_seconds", to_agent(20, message({1: 9, 2: "job", 3: 5.0})))
    put("agent_commands", "trace_steps", to_agent(20, message({1: 9, 2: "job", 4: 3, 5: 4096})))
    put("agent_commands", "probe_begin", to_agent(31, message({1: 3, 2: "job", 3: bytes(32), 5: 10.0, 6: 1})))
    put("agent_commands", "heartbeat", to_agent(9, message({1: 5}) + fixed64(2, NOW_NS)))


def rank_event(field: int, body: bytes, rank: int = 0) -> bytes:
    return message({6: message({1: "job", 2: rank, 3: 1, field: body})})


def coordinator_frames() -> dict:
    fingerprint = '{"device":{},"environment":{},"fabric":{},"software":{}}'
    hello = message({1: message({1: 1, 2: "0.1.0", 3: "n0", 4: "of n0", 5: 1, 6: 1 << 30, 7: fingerprint,
                                 8: message({1: "job", 2: 0, 3: 77, 4: 1, 5: 1})})})
    entry = message({1: KEY, 2: STATISTICS, 3: "active"})
    passive = message({1: KEY, 2: STATISTICS, 3: "passive"})
    collective = lambda begin: message({2: 4, 3: 9, 4: 2, 5: 0, 6: 1, 7: 1, 8: 2, 9: 4, 10: 4096, 12: 200000}) + fixed64(1, 77) + fixed64(
        11, NOW_NS + begin) + message({13: zigzag(-500), 14: 100})
    activity = message({1: "job", 2: 0, 4: 1, 5: 120, 6: zigzag(119), 10: 32, 11: 0.25, 12: 0.7, 13: 0.2, 15: 0.1,
                        17: message({1: 7, 2: 0.5}), 18: message({1: "gemm", 2: "gemm", 4: 0.5, 5: 100, 6: 1000})})
    return {
        "hello": hello,
        "heartbeat": message({2: message({1: 5}) + fixed64(2, NOW_NS) + fixed64(3, 0)}),
        "cost_batch": message({3: message({1: 1, 2: fingerprint, 3: [entry, passive], 4: "job"})}),
        "command_done": message({4: message({1: 1, 2: 1, 4: MODEL})}),
        "command_failed": message({4: message({1: 1, 3: "exit code 2", 5: 2})}),
        "command_progress": message({5: message({1: 1, 2: 3, 3: 8, 4: "items"})}),
        "connected": rank_event(5, message({1: 77, 2: 1, 3: 3})),
        "step": rank_event(6, message({1: 4, 2: 1, 3: 100_000_000, 4: 9, 5: 6.25, 6: "00ff", 7: 1 << 20, 8: 1.5})),
        "plan_ack": rank_event(7, message({1: 2, 2: 9})),
        "plan_refuse": rank_event(8, message({1: 2, 2: "memory", 3: "no room"})),
        "plan_active": rank_event(9, message({1: 2, 2: 10, 3: 5000})),
        "plan_failed": rank_event(10, message({1: 2, 2: 10, 3: "out_of_memory"})),
        "exited": rank_event(11, message({1: 1, 2: 9, 3: "Killed"})),
        "bye": rank_event(12, message({1: 40})),
        "timeline": rank_event(13, message({1: 1, 2: 4, 3: NOW_NS, 4: '[["forward",0,1000],["backward",1000,3000]]'})),
        "submission": rank_event(14, message({1: "queued", 2: "job 17"})),
        "passes": rank_event(15, message({1: 1, 2: 4, 3: 90_000_000})),
        "collectives": message({30: message({1: "job", 2: 0, 3: fingerprint, 4: [collective(0), collective(10_000_000)]})}),
        "trace_chunk": message({20: trace_chunk() + message({1: 3})}),
        "trace_end": message({21: message({1: 3, 2: "n0", 3: message({1: 0, 2: 9, 6: "it was stopped"})})}),
        "activity": message({22: activity}),
        "probe_report": message({31: message({1: 1, 3: message({1: 0, 2: "gemm", 3: 4.5, 4: 0.01}),
                                              4: message({1: 0, 2: "127.0.0.1", 3: 7500}),
                                              5: message({1: 0, 2: 1e9, 3: 0.02, 4: 30.0, 5: 1 << 20})})}),
    }


def framed(who: int, frame: bytes) -> bytes:
    return bytes([who]) + struct.pack("<H", len(frame)) + frame


def write_coordinator_frames() -> None:
    frames = coordinator_frames()
    for name, frame in frames.items():
        put("coordinator_frames", name, framed(0, frame))
    pause = bytes([20])
    put("coordinator_frames", "no_message", framed(0, b"\xff\xff\xff"))
    beats = framed(0, frames["heartbeat"]) + pause
    put("coordinator_frames", "beats", beats * 4 + framed(1, frames["heartbeat"]))
    both = framed(0, frames["command_done"]) + framed(1, frames["command_done"]) + pause
    put("coordinator_frames", "a_job_begins", both + framed(0, frames["connected"]) + framed(0, frames["step"]) * 3 + framed(0, frames["exited"]))
    put("coordinator_frames", "lost_node", bytes([255]) * 3 + framed(0, frames["hello"]))


def trace_record(kind: int, name: int, begin: int, duration: int, **fields: int) -> bytes:
    details = fields.pop("details", [])
    numbers = {"flags": 2, "domain": 4, "thread": 5, "depth": 6, "payload": 9}
    body = {1: kind, 3: name, 7: zigzag(begin), 8: duration}
    for key, value in fields.items():
        body[numbers[key]] = zigzag(value) if key == "payload" else value
    return message(body) + (message({10: b"".join(varint(detail) for detail in details)}) if details else b"")


def trace_chunk() -> bytes:
    names = ["", "trimtab", "op/a/forward", 'gemm<"x">\n', "AllReduce", "00000000000000ff", "main"]
    records = [
        trace_record(3, 6, 0, 0, thread=100),
        trace_record(1, 2, 1000, 900, domain=1, thread=100, flags=4, payload=4, details=[5, 0]),
        trace_record(21, 0, -NOW_NS, 0, domain=5, payload=9),
        trace_record(16, 3, 2000, 500, domain=128, thread=7, payload=9 | 1 << 32, details=[1, 1, 256, 1, 1]),
        trace_record(17, 0, 2600, 10, domain=10, thread=7, payload=4096, details=[1]),
        trace_record(32, 4, 3000, 200, domain=5, thread=1, depth=2, payload=1024, details=[2, 0, 1, 1, 2, 7]),
        trace_record(2, 2, 4000, 0, domain=1, thread=100),
        trace_record(22, 3, 5000, 10_000, payload=2),
    ]
    return message({2: 0, 3: 77, 4: "n0", 6: names, 7: records}) + message({5: NOW_NS})


def write_trace_chunks() -> None:
    def piece(chunk: bytes) -> bytes:
        return struct.pack("<H", len(chunk)) + chunk

    put("trace_chunks", "one_of_each", piece(trace_chunk()))
    other = trace_chunk() + message({2: 1, 4: "n1"})
    put("trace_chunks", "two_ranks", piece(trace_chunk()) + piece(other))
    put("trace_chunks", "name_beyond", piece(message({3: 7, 7: trace_record(16, 9, 0, 1)})))
    put("trace_chunks", "late_clock", piece(trace_chunk() + message({5: (1 << 64) - 1})))


def publish(kind: int, name: int, domain: int, begin_us: int, length_ns: int, payload: int = 0, thread: int = 1,
            depth: int = 0, flags: int = 4, details: tuple = ()) -> bytes:
    """A step of fuzz_record_ring; begin_us counts from two seconds before now."""
    padded = (list(details) + [0] * 7)[:7]
    return bytes([2, kind, flags, name, domain, thread, depth]) + struct.pack("<III", begin_us, length_ns, payload) + bytes(padded)


def name_step(index: int, text: str) -> bytes:
    return bytes([1, index, len(text)]) + text.encode()


DRAIN = bytes([6, 1])
WAIT = bytes([6, 255])


def write_record_rings() -> None:
    names = name_step(1, "trimtab") + name_step(2, "op/a/forward") + name_step(3, "step") + name_step(4, "switch")
    more = name_step(5, "_Z6ampereIfEvPT_") + name_step(6, "ncclDevKernel_AllReduce_Sum_f32_RING_LL") + name_step(7, "AllReduce")
    more += name_step(8, "00000000000000ff") + name_step(9, "comm/all_reduce/2") + name_step(10, "op/a/backward")
    steps = b"".join(
        publish(1, 2, 1, i * 1000, 400_000, 2, details=(i + 1,)) + publish(1, 10, 1, i * 1000 + 400, 300_000, 2, details=(i + 101,)) +
        publish(1, 9, 1, i * 1000 + 700, 100_000, 64) + publish(1, 3, 1, i * 1000, 900_000, i) for i in range(8))
    put("record_ring", "steps_on_the_host", names + more + steps + DRAIN + WAIT * 4)
    kernels = b"".join(
        publish(1, 2, 1, i * 1000, 400_000, 2, details=(i + 1,)) + publish(21, 0, i + 1, 0, 0, i + 50) +
        publish(16, 5, 132, i * 1000 + 10, 300_000, i + 50, thread=7, details=(1, 1, 200, 1, 1)) +
        publish(16, 6, 8, i * 1000 + 300, 200_000, i + 90, thread=9, details=(1, 1, 96, 1, 1)) +
        publish(32, 7, 8, i * 1000 + 300, 200_000, 4096, thread=i, depth=2, details=(2, 0, 1, 1, 2, 7)) for i in range(7))
    clocks = publish(34, 0, 8, 0, 0, 1000) + publish(34, 0, 8, 100, 0, 900, details=(1,))
    put("record_ring", "kernels_and_collectives", names + more + clocks + kernels + DRAIN + kernels + WAIT * 4)
    put("record_ring", "plan_changes", names + (publish(1, 4, 1, 0, 100, 3) + publish(1, 3, 1, 1, 100, 1) * 5) * 4 + DRAIN + WAIT)
    put("record_ring", "copies_and_windows", more + publish(17, 0, 5, 10, 500, 4096, details=(1,)) + publish(18, 0, 6, 20, 5, 64) +
        publish(19, 0, 3, 30, 900, 7) + publish(20, 0, 0, 40, 8, 1, thread=0) + publish(22, 5, 0, 50, 255, 2) + publish(3, 5, 0, 0, 0) +
        publish(2, 5, 1, 60, 0) + publish(33, 7, 8, 70, 50, 512, depth=1, details=(2, 1, 2)) + DRAIN + WAIT)
    put("record_ring", "never_published", names + bytes([5]) * 5 + publish(1, 3, 1, 0, 9) + DRAIN + WAIT * 2)
    put("record_ring", "head_jumps", names + publish(1, 3, 1, 0, 9) + DRAIN + bytes([7, 0]) + struct.pack("<Q", 1 << 63) + DRAIN)
    put("record_ring", "tail_moved", names + publish(1, 3, 1, 0, 9) + bytes([7, 1]) + struct.pack("<Q", 50) + DRAIN)
    put("record_ring", "drops", names + bytes([7, 2]) + struct.pack("<Q", 7) + publish(1, 3, 1, 0, 9) + DRAIN)
    slots_at = 256 + 16 * 128
    put("record_ring", "scribbled_slot", names + publish(1, 3, 1, 0, 9) + bytes([0]) + struct.pack("<HB", slots_at, 32) + b"\xff" * 32 + DRAIN)
    put("record_ring", "scribbled_name", names + bytes([0]) + struct.pack("<HB", 256 + 2 * 128, 40) + b"\x02\0\0\0\xff\xff\0\0" + b"\xe2\x82" * 16 + publish(1, 2, 1, 0, 9) + DRAIN)


def write_ring_headers() -> None:
    def header(version: int = 1, header_bytes: int = 256, names: int = 8, slots: int = 8, head: int = 0, tail: int = 0) -> bytes:
        front = struct.pack("<QIIIIII", 0x52424154_4D495254, version, header_bytes, names, slots, 77, 0)
        return front.ljust(64, b"\0") + struct.pack("<Q", head).ljust(64, b"\0") + struct.pack("<Q", tail).ljust(128, b"\0")

    name = struct.pack("<IHH", 2, 4, 0) + b"step".ljust(116, b"\0") + struct.pack("<I", 0)
    slot = lambda sequence: struct.pack("<QQQqIIIHHHHHHHHHH", sequence, 10, 30, 4, 1, 0, 9, 1, 4, *[0] * 8)[:64].ljust(64, b"\0")
    tables = bytes(128) + name + bytes(6 * 128)
    put("ring_header", "empty", header() + bytes(8 * 128) + b"".join(slot(i) for i in range(8)))
    put("ring_header", "three_records", header(head=3) + tables + b"".join(slot(i + (1 if i < 3 else 0)) for i in range(8)))
    put("ring_header", "reader_died", header(head=3) + tables + slot(8) + slot(2) + slot(3) + b"".join(slot(i) for i in range(3, 8)))
    put("ring_header", "longer_header", header(header_bytes=320) + bytes(64) + tables + b"".join(slot(i) for i in range(8)))
    put("ring_header", "other_version", header(version=2) + bytes(8 * 128 + 8 * 64))
    put("ring_header", "counters_contradict", header(head=5, tail=9) + bytes(8 * 128 + 8 * 64))
    put("ring_header", "tables_beyond_the_end", header(slots=1 << 20) + bytes(8 * 128 + 8 * 64))


def hash64(text: str | bytes) -> str:
    """As schema/src/hash64.cpp."""
    mask = (1 << 64) - 1
    state = fnv1a(text if isinstance(text, bytes) else text.encode())
    state = (state ^ state >> 33) * 0xFF51AFD7ED558CCD & mask
    state = (state ^ state >> 33) * 0xC4CEB9FE1A85EC53 & mask
    return f"{state ^ state >> 33:016x}"


FINGERPRINT = '{"device":{"cpu":"x"},"environment":{},"fabric":{},"software":{}}'


def insert_costs(database: sqlite3.Connection, has_batch_rows: bool) -> None:
    """One folded cost, and three batches that are not."""
    name = hash64(FINGERPRINT)
    batches = ((1, 1, 3), (2, 1, 5), (2, 2, 0))  # key, origin, number
    if has_batch_rows:
        database.execute("INSERT INTO costs VALUES (?, 1, 'active', 1, ?)", (name, STATISTICS))
        for key, origin, number in batches:
            database.execute("INSERT INTO batches VALUES (?, ?, ?, 'active', ?)", (origin, number, name, f"{key} {STATISTICS}\n"))
        return
    for key, origin, number in batches:
        database.execute("INSERT INTO batches VALUES (?, ?)", (origin, number))
    for key, origin, number in ((1, 1, -1), *batches):
        database.execute("INSERT INTO costs VALUES (?, ?, 'active', ?, ?, ?)", (name, key, origin, number, STATISTICS))


def row_checksum(*values) -> int:
    """schema/src/store/row_checksum.hpp."""
    encoded = b""
    for value in values:
        if isinstance(value, int):
            encoded += b"i" + struct.pack("<q", value)
        elif isinstance(value, float):
            encoded += b"r" + struct.pack("<d", value)
        elif value is None:
            encoded += b"n"
        else:
            text = value if isinstance(value, bytes) else value.encode()
            encoded += b"t" + struct.pack("<Q", len(text)) + text
    checksum = int(hash64(encoded), 16) or 1
    return struct.unpack("<q", struct.pack("<Q", checksum))[0]


SQL = pathlib.Path(__file__).parents[2] / "schema" / "sql"
COST_MIGRATIONS = len(list(SQL.glob("0*.sql")))


def cost_database(steps: int, change: str = "", flip: str = "") -> bytes:
    """A database after so many migrations; small pages, no comments: a fuzzer's inputs are short."""
    with tempfile.NamedTemporaryFile() as file:
        database = sqlite3.connect(file.name, isolation_level=None)
        database.execute("PRAGMA page_size = 512")
        database.execute("PRAGMA journal_mode = MEMORY")
        database.create_function("row_checksum", -1, row_checksum)
        scripts = [path.read_text() for path in sorted(SQL.glob("0*.sql"))]
        # Triggers are compared by their text.
        scripts = [text if "TRIGGER" in text else re.sub(r"\s+", " ", re.sub(r"--.*", "", text)) for text in scripts]
        for script in scripts[:min(steps, 4)]:
            database.executescript(script)
        database.execute(f"PRAGMA application_id = {0x74724331}")
        database.execute(f"PRAGMA user_version = {steps}")
        database.execute("INSERT INTO fingerprints VALUES (?, ?)", (hash64(FINGERPRINT), FINGERPRINT))
        database.execute("INSERT INTO origins (id, name, folded) VALUES (1, 'agent-a', 2), (2, 'agent-b', 0)")
        new_columns = ", '', '', 0, ''" if steps > 1 else ""
        for number, kind in enumerate(("operator_forward", "step_overhead"), 1):
            database.execute(f"INSERT INTO cost_keys VALUES ({number}, '{kind}', 'a', 'float32', 2, 1, 'default', 0, 0, ''{new_columns})")
        insert_costs(database, has_batch_rows=steps > 2)
        database.execute("INSERT INTO facts VALUES (?, 'calibration/job', 1, '{}')", (hash64(FINGERPRINT),))
        if change and steps < 5:
            database.execute(change)
        if steps > 4:  # Rows have the checksums of what they say, also of what is wrong.
            if change and not change.startswith("PRAGMA"):
                database.execute(change)
            for script in scripts[4:]:
                database.executescript(script)
            if change.startswith("PRAGMA"):
                database.execute(change)
        if flip:
            database.execute(flip)
        database.execute("VACUUM")
        database.close()
        return pathlib.Path(file.name).read_bytes()


def write_cost_databases() -> None:
    put("cost_database", "costs", cost_database(COST_MIGRATIONS))
    put("cost_database", "flipped", cost_database(COST_MIGRATIONS, flip="UPDATE costs SET statistics = '1;2;1;1;0;0;0:9'"))
    put("cost_database", "flipped_key", cost_database(COST_MIGRATIONS, flip="UPDATE cost_keys SET subject = 'b' WHERE id = 1"))
    put("cost_database", "older_version", cost_database(1))
    put("cost_database", "rows_of_batches", cost_database(2))
    put("cost_database", "wrong_batch", cost_database(COST_MIGRATIONS, "UPDATE batches SET costs = '1 ' || costs"))
    put("cost_database", "newer_version", cost_database(COST_MIGRATIONS, "PRAGMA user_version = 99"))
    put("cost_database", "other_application", cost_database(COST_MIGRATIONS, "PRAGMA application_id = 7"))
    put("cost_database", "wrong_statistics", cost_database(COST_MIGRATIONS, "UPDATE costs SET statistics = '1;9223372036854775807;1;1;0;0;0:9'"))
    put("cost_database", "key_out_of_range", cost_database(COST_MIGRATIONS, "UPDATE cost_keys SET samples = 99999999999"))
    put("cost_database", "hash_of_another", cost_database(COST_MIGRATIONS, "UPDATE fingerprints SET json = '{}'"))
    put("cost_database", "cut", cost_database(COST_MIGRATIONS)[:5000])
    put("cost_database", "no_database", b"SQLite format 3\0" + bytes(84))


def write_rank_streams() -> None:
    frame = lambda text: struct.pack("<I", len(text)) + text.encode()
    hello = frame('{"type":"hello","version":1,"pid":77,"job":"gpt","rank":0,"epoch":1,"step":3}')
    step = frame('{"type":"step","step":4,"epoch":1,"wall_ns":1000000}')
    put("rank_frames", "stream_whole", b"\xff" + hello + step * 3)
    put("rank_frames", "stream_byte_by_byte", b"\x00" + hello + step)
    put("rank_frames", "stream_too_long", b"\x40" + hello + struct.pack("<I", 1 << 24))
    put("rank_frames", "stream_empty_frame", b"\x40" + hello + struct.pack("<I", 0) + step)


def write_collector_replies() -> None:
    reply = lambda status, retry_after, body: struct.pack("<HB", status, len(retry_after)) + retry_after + body
    put("collector_replies", "taken", reply(200, b"", b'{"partialSuccess":{}}'))
    put("collector_replies", "partial", reply(200, b"", b'{"partialSuccess":{"rejectedDataPoints":"7","errorMessage":"too old"}}'))
    put("collector_replies", "throttled", reply(429, b"120", b'{"code":8,"message":"later"}'))
    put("collector_replies", "until_a_date", reply(503, b"Tue, 14 Nov 2023 22:13:50 GMT", b""))
    put("collector_replies", "bad_data", reply(400, b"", b'{"code":3,"message":"invalid","details":[]}'))
    put("collector_replies", "web_page", reply(200, b"", b"<!DOCTYPE html><html></html>"))
    put("collector_replies", "deep", reply(200, b"", b'{"partialSuccess":' * 400))



def write_link_probes() -> None:
    """agent/src/probes/link_conversation.cpp: requests and answers. The first byte is how the other side behaves (link_probe.cpp)."""
    asks_stranger, answers, knows, repeats, jumps = 0, 1, 2, 4, 8
    put_link = lambda name, behaviour, pace, words: put("link_probe", name, bytes([behaviour, pace]) + words)
    round_trip = struct.pack("<QQ", 1, 0)
    take, give = (lambda size, ask=ask: struct.pack("<QQ", ask, size) for ask in (2, 3))
    carried = struct.pack("<QQ", 4, 0)
    conversation = round_trip * 3 + take(16384) + carried + give(16384) + carried
    put_link("asks_stranger", asks_stranger, 4, b"x" * 32 + conversation)
    put_link("asks_late", knows, 23, conversation)
    put_link("asks", knows, 4, conversation)
    put_link("asks_for_little", knows, 4, take(3) + b"abc" + carried + give(3) + carried)
    put_link("asks_for_much", knows, 4, take(1 << 19) + give(1 << 20))
    put_link("asks_for_all", knows, 4, take(1 << 20) + give((1 << 64) - 1))
    put_link("asks_unknown", knows, 4, round_trip + struct.pack("<QQ", 9, 1))
    put_link("asks_forever", knows | repeats, 0, round_trip)
    put_link("asks_with_jumps", knows | jumps, 3, conversation * 4)
    answer = lambda own, carried_bytes, nanoseconds: b"c" * 32 + struct.pack("<QQQ", own, carried_bytes, nanoseconds)
    put_link("answers", answers | repeats, 14, answer(49152, 100000, 10**7))
    put_link("answers_nothing_carried", answers | repeats, 14, answer(0, 0, 0))
    put_link("answers_little", answers | repeats, 14, answer(1, 0, 1))
    put_link("answers_much", answers | repeats, 14, answer(1, (1 << 63) - 1, 1))
    put_link("answers_lies", answers | repeats, 14, b"\xff" * 56)
    put_link("answers_with_jumps", answers | repeats | jumps, 14, answer(49152, 100000, 10**7))
    put_link("answers_and_closes", answers, 10, answer(1, 1, 1))


NSYS = """
CREATE TABLE StringIds (id INTEGER, value TEXT);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)'), (3, 'iteration 2');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, demangledName);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, globalTid, correlationId);
CREATE TABLE NVTX_EVENTS (start, end, globalTid, text, textId);
CREATE TABLE TARGET_INFO_GPU (id, name, totalMemory);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 3000, 1, 7, 11, 16777216, 1), (3000, 4000, 1, 9, 12, 16777216, 2);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 16777221, 11), (960, 16777221, 12);
INSERT INTO NVTX_EVENTS VALUES (800, 4800, 16777221, 'iteration 1', NULL), (4800, 9000, 16777221, NULL, 3);
INSERT INTO TARGET_INFO_GPU VALUES (1, 'NVIDIA H100', 85899345920);
"""


def write_nsys_databases() -> None:
    """nsys_database.cpp: whole files, and rows as it takes them apart."""
    with tempfile.NamedTemporaryFile() as file:
        database = sqlite3.connect(file.name, isolation_level=None)
        database.executescript("PRAGMA page_size = 512; PRAGMA journal_mode = MEMORY;" + NSYS + "VACUUM;")
        database.close()
        whole = pathlib.Path(file.name).read_bytes()
    put("nsys_database", "file", whole)
    put("nsys_database", "file_cut", whole[:2000])
    put("nsys_database", "file_of_another_program", whole.replace(b"CUPTI_ACTIVITY", b"OTHER_ACTIVITY"))
    number, word, process = lambda n: b"\x01" + struct.pack("<q", n), lambda at: bytes([3, at]), lambda n: b"\x06" + n.to_bytes(3, "little")
    row = lambda table, *values: bytes([table]) + b"".join(values)
    every = struct.pack("<H", 0x7FF)
    kernel = lambda begin, end, call, name: row(1, number(begin), number(end), number(call), number(0), process(1), number(7), number(name))
    event = lambda begin, end, text, more=b"\x00": row(8, number(begin), number(end), process(1), text, b"\x00", more)
    layout = row(6, number(1), number(16)) + row(7, number(1), word(6), number(19), number(0)) + row(7, number(1), word(5), number(19), number(8))
    steps = event(0, 5000, word(0)) + event(5000, 9000, word(1)) + event(10, 90, word(2))
    payload = struct.pack("<IIQQQQ", 1, 1, 16, 48, 77, 1 << 20)
    communication = event(100, 200, word(3), b"\x05" + bytes([len(payload)]) + payload) + row(0, number(2), word(4))
    calls = row(5, number(50), number(1), process(1)) + row(5, number(150), number(2), process(1))
    work = communication + kernel(1000, 2000, 1, 1) + kernel(2000, 3000, 2, 2) + calls
    put("nsys_database", "rows", every + layout + work + steps + row(9, number(0), b"\x04\x04H100", number(80 << 30)) + row(10, word(7), b"\x04\x05node0"))
    put("nsys_database", "rows_late", every + kernel(-(1 << 62), 1 << 62, 1, 1) + kernel(1 << 62, 1 << 62, 1, 1) + steps)
    put("nsys_database", "rows_of_a_graph", every + row(4, number(0), number(100), number(1), number(0), process(2), number(7)) + steps)
    put("nsys_database", "rows_of_other_types", every + row(1, b"\x03\x00", b"\x02\xff\xff\xff\xff", b"\x00", b"\x00", b"\x05\x02ab", b"\x00", b"\x00"))


def published(form: str, files: dict) -> bytes:
    """A directory of files, as the target takes it apart."""
    line = lambda data: data if data.endswith(b"\n") else data + b"\n"
    return form.encode() + b"\n" + b"".join(b"==== " + name.encode() + b"\n" + line(data) for name, data in files.items())


GPT_OPERATORS = (
    "encoder-embedding enc-1st-layernorm enc-attention-qkv enc-attention-score enc-attention-softmax enc-attention-dropout "
    "enc-attention-context enc-attention-dense enc-post-attention-dropout enc-2nd-layernorm enc-MLP-GEMM-1 enc-MLP-gelu "
    "enc-MLP-GEMM-2 enc-post-MLP-dropout final-layernorm gpt-post-process"
).split()


def pickle_text(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


def pickle_cache() -> bytes:
    """What Aceso's profiler pickles: Python's floats, and numpy's."""
    number = lambda value: b"G" + struct.pack(">d", value)
    dtype = pickle_text("numpy") + pickle_text("dtype") + b"\x93" + pickle_text("f8") + b"\x89\x88\x87R"
    state = b"(K\x03" + pickle_text("<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    scalar = pickle_text("numpy.core.multiarray") + pickle_text("scalar") + b"\x93" + dtype + state
    numpy = lambda value: scalar + b"C\x08" + struct.pack("<d", value) + b"\x86R"
    values = [number(100.5), number(200.25), numpy(4), numpy(8), numpy(2), number(8.015625), b"K\x00", number(20.0)]
    operators = pickle_text("gpt_9Benc-MLP-gelumbs1tp_size1algo0") + b"](" + b"".join(values) + b"e"
    collectives = pickle_text("all_gather_2gpus_2.5_torch.float16") + number(0.129)
    results = pickle_text("profiled_results") + b"}\x94(" + operators + collectives + b"u"
    hashes = pickle_text("op_hash_list") + b"h\x00"
    return b"\x80\x04}(" + results + hashes + b"u."


def write_published() -> None:
    header = "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,fwd_reserved,bwd_reserved\n"
    row = lambda name, i: f"{name},{100 + i}.500,{200 + i}.250,4.000,8.000,2.000,8.016,0.000,20.000\n"
    table = (header + "".join(row(name, i) for i, name in enumerate(GPT_OPERATORS))).encode()
    aceso = {
        "gpt_1_3B_mbs1_tp1_algo0.csv": table,
        "gpt_1_3B_mbs1_tp2_algo1.csv": table,
        "prim_gpt_1_3B_all_gather_2gpus.csv": b"data_size(MB),time(ms)\n2,0.129\n4096,1000000000.000\n",
        "p2p_intra_node.csv": b"1,2,4\n17.22, 24.83, 31.25\n",
        "p2p_inter_node.csv": b"1,2\r\n3.88,4.45\r\n",
    }
    put("published", "aceso_folder", published("aceso", aceso))
    put("published", "aceso_folder_of_ones_own", published("aceso said", {"gpt_9B_mbs1_tp1_algo0.csv": table}))
    resnet = header + "".join(row(name, i) for i, name in enumerate(["conv1", "block-0-0-conv1", "block-0-1-conv1", "fc"]))
    t5 = header + "".join(row(f"op-{i}", i) for i in range(39))
    others = {"resnet_500M_mbs16_tp1_algo0.csv": resnet.encode(), "t5_9B_mbs1_tp1_algo0.csv": t5.encode()}
    put("published", "aceso_folder_of_others", published("aceso said", others))
    cached = {
        "gpt_9B_mbs1_tp1_algo0.csv": table,
        "prim_gpt_9B_all_gather_2gpus.csv": b"data_size(MB),time(ms)\n2,0.129\n",
        "gpt_op_profile.pkl": pickle_cache(),
    }
    put("published", "aceso_cache", published("aceso said", cached))
    call = b"\x80\x04" + pickle_text("os") + pickle_text("system") + b"\x93" + pickle_text("true") + b"\x85R."
    put("published", "aceso_hostile_cache", published("aceso", {"gpt_9B_mbs1_tp1_algo0.csv": table, "a.pkl": call}))
    times = {f"layertype_0_bsz{b}_seq2048": 4 + 0.5 / b for b in (1, 2, 4)}
    times |= {f"layertype_other_bsz{b}_seq2048": 3 + 3 / b for b in (1, 2, 4)} | {"layernum[2]_bsz1_seq2048": 15.0}
    ends = {"2048": {"model_states": {"1": 4130.5, "2": 2321.5}, "activation": {"1": 841.5, "2": 358.5}}}
    sizes = {
        "1_1_8_sp": {"layernum[1]_bsz8_seq2048_rank0_ms": 904.5},
        "layertype_0_sp": {
            "2048": {
                "parameter_size": 778.25,
                "tp_activation_per_bsz_dict": {"1": 514.5, "2": 273.25, "4": 136.5, "8": 68.5, "checkpoint": 32.0},
            }
        },
        **{f"other_memory_{where}_sp": ends for where in ("pp_off", "pp_on_first", "pp_on_last")},
    }
    groups = {"allreduce_size_8_consec_1": 154.2, "allreduce_size_4_consec_0": 155.8, "allreduce_size_2_consec_1": 138.1}
    collectives = {"allreduce_size_8_1MB_time": 0.07895, "all2all_size_4_16MB_time": 0.25}
    plan = {"pp_deg": 1, "tp_sizes_enc": "1,1,1", "global_bsz": 16, "chunks": 1}
    galvatron = {
        "allreduce_bandwidth_1nodes_8gpus_per_node.json": groups,
        "p2p_bandwidth_1nodes_8gpus_per_node.json": {"pp_size_2": 163.6, "pp_size_4": 138.5},
        "overlap_coefficient.json": {"overlap_coe": 1.1255},
        "sp_time_1nodes_8gpus_per_node.json": collectives,
        "computation_profiling_bf16_llama2-7b_all.json": times,
        "memory_profiling_bf16_llama2-7b_all.json": sizes,
        "galvatron_config_llama2-7b_1nodes_8gpus_per_node_36GB_bf16.json": plan,
    }
    text = lambda files: {name: json.dumps(value).encode() for name, value in files.items()}
    put("published", "galvatron_folder", published("galvatron", text(galvatron)))
    old_sizes = {
        "layertype_0": {"parameter_size": 768.5, "tp_activation_per_bsz_dict": {"1": 272.5, "2": 176.5, "checkpoint": 16.0}},
        "other_memory_pp_off": {"model_states": 6540.0, "activation": 920.5},
        "model_config": {"dim": 64, "n_layers": 3},
    }
    old = {
        "allreduce_bandwidth_2nodes_2gpus_per_node.json": {"allreduce_size_2_consec_1": 100.0},
        "computation_profiling_fp32_mine_seqlen512.json": {"layertype_0": 4.6, "layernum[6]_bsz2": 83.5},
        "memory_profiling_fp32_mine_seqlen512.json": old_sizes,
        "computation_profiling_bf16_t5-3B.json": {"layertype_0_bsz8_seq512": 1.0, "layertype_1_bsz8_seq512": 1.5},
    }
    put("published", "galvatron_folder_of_ones_own", published("galvatron said", text(old)))


def main() -> None:
    write_published()
    write_nccl_tables()
    write_agent_commands()
    write_coordinator_frames()
    write_trace_chunks()
    write_record_rings()
    write_ring_headers()
    write_rank_streams()
    write_cost_databases()
    write_collector_replies()
    write_link_probes()
    write_nsys_databases()


main()

"""The programs of the section nccl-price. `answer`: the benchmark of a job of which only the all-reduce is asked about, so all
else takes next to nothing. `reduce`: a rank, which sums by itself for so many seconds and is late when told to be."""
import argparse
import json
import pathlib
import time

LITTLE = 1000  # ns, or bytes.
WARM = 5


def answer(options):
    """No collectives: those are for the ranks to measure."""
    for number, item in enumerate(json.loads(pathlib.Path(options.requests).read_text(encoding="utf-8"))["items"]):
        for cost in costs_of(item):
            print(json.dumps({"item": number, "cost": cost, "values": [LITTLE] * 5}))
        if not costs_of(item):
            print(json.dumps({"item": number, "error": "this job measures no communication"}))
        print(json.dumps({"item_done": number}), flush=True)


def costs_of(item):
    if item["kind"] == "process":
        return [{"kind": "process_bytes", "subject": "process"}]
    key = {"subject": item.get("cost_key"), **{name: item[name] for name in ("dtype", "samples", "tp", "sharding") if name in item}}
    kinds = {"optimizer": ["optimizer_step"], "operator": [f"operator_{what}" for what in (
        "forward", "backward", "stored_bytes", "working_bytes")]}
    return [{"kind": kind, **key} for kind in kinds.get(item["kind"], [])]


def late(rank, call):
    """Whether it comes late to a call: in three of five the second rank does, in one the first, in one nobody."""
    return call % 5 == 0 if rank == 0 else call % 5 > 1


def reduce(options):
    import torch

    from plan_programs import join

    device = join({"rank": options.rank, "world_size": 2, "store": str(options.folder / "store")})
    values, goes_on = torch.zeros(options.bytes // 4, device=device), torch.ones(1, device=device)
    for _ in range(WARM):
        torch.distributed.all_reduce(goes_on, op=torch.distributed.ReduceOp.MIN)
    torch.cuda.synchronize()
    (options.folder / f"ready-{options.rank}").touch()
    while not (options.folder / "begin").exists():
        time.sleep(0.01)
    taken, until = [], time.monotonic() + options.seconds
    while True:
        goes_on.fill_(float(time.monotonic() < until))
        torch.distributed.all_reduce(goes_on, op=torch.distributed.ReduceOp.MIN)  # Ranks end together, and begin each call so.
        if not goes_on.item():
            break
        if late(options.rank, len(taken)):
            time.sleep(options.late)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        torch.distributed.all_reduce(values)
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end))
    torch.distributed.destroy_process_group()
    (options.folder / f"events-{options.rank}.json").write_text(json.dumps(taken), encoding="utf-8")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True)
    asked = verbs.add_parser("answer")
    asked.add_argument("--requests", required=True)
    asked.set_defaults(run=answer)
    rank = verbs.add_parser("reduce")
    rank.add_argument("--rank", type=int, required=True)
    rank.add_argument("--bytes", type=int, required=True)
    rank.add_argument("--seconds", type=float, required=True)
    rank.add_argument("--late", type=float, required=True, metavar="SECONDS")
    rank.add_argument("--folder", type=pathlib.Path, required=True)
    rank.set_defaults(run=reduce)
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    given.run(given)

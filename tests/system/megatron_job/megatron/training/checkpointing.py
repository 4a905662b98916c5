"""DIRECTORY/iter_0000010/mp_rank_00/model_optim_rng.pt, and latest_checkpointed_iteration.txt, which names the last whole one."""
import pathlib

import torch
import torch.distributed as distributed

TRACKER = "latest_checkpointed_iteration.txt"


def _file(directory, iteration):
    return pathlib.Path(directory) / f"iter_{iteration:07d}" / "mp_rank_00" / "model_optim_rng.pt"


def save_checkpoint(args, iteration, model, optimizer):
    if hasattr(optimizer, "consolidate_state_dict"):
        optimizer.consolidate_state_dict(to=0)
    if distributed.get_rank() == 0:
        path = _file(args.save, iteration)
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "train_iters": args.train_iters}, path)
        (pathlib.Path(args.save) / TRACKER).write_text(str(iteration), encoding="utf-8")
    distributed.barrier()


def load_checkpoint(args, model, optimizer):
    """The iteration to go on with."""
    tracker = pathlib.Path(args.load or "") / TRACKER
    if not args.load or not tracker.exists():
        return 0
    iteration = int(tracker.read_text(encoding="utf-8"))
    state = torch.load(_file(args.load, iteration))
    # The schedule of the weight decay goes with it.
    assert state["train_iters"] == args.train_iters, "class input value and checkpoint value for train_iters do not match"
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return iteration

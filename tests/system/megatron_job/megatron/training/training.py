"""pretrain(): set-up, then train() calls train_step() until --train-iters, --exit-interval or a signal."""
import json
import os
import sys

import torch
import torch.distributed as distributed
from torch.distributed.optim import ZeroRedundancyOptimizer

from .arguments import parse_args
from .checkpointing import load_checkpoint, save_checkpoint
from .global_vars import get_args, get_signal_handler, set_global_variables


def train_step(forward_step_func, data_iterator, model, optimizer, opt_param_scheduler, config):
    args, ranks = get_args(), distributed.get_world_size()
    optimizer.zero_grad()
    microbatches = args.global_batch_size // (args.micro_batch_size * args.data_parallel_size)
    total = 0.0
    for _ in range(microbatches):
        loss = forward_step_func(data_iterator, model) / microbatches
        loss.backward()
        total = total + loss.detach()
    flat = torch.cat([parameter.grad.flatten() for parameter in model.parameters()] + [total.reshape(1)]) / ranks
    distributed.all_reduce(flat)
    parts = flat[:-1].split([parameter.numel() for parameter in model.parameters()])
    for parameter, part in zip(model.parameters(), parts):
        parameter.grad.copy_(part.view_as(parameter))
    grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    optimizer.step()
    return {"lm loss": flat[-1]}, 0, False, False, 0, grad_norm, None


def checkpoint_and_decide_exit(args, iteration, model, optimizer):
    signalled = args.exit_signal_handler and any(get_signal_handler().signals_received())
    is_last = bool(args.exit_interval) and iteration % args.exit_interval == 0
    if signalled or is_last or iteration % args.save_interval == 0:
        save_checkpoint(args, iteration, model, optimizer)
    return signalled or is_last


def training_log(iteration):
    """A line for each iteration that rank 0 has done: which launch did it."""
    if distributed.get_rank() == 0 and "STEP_LOG" in os.environ:
        launch = os.environ.get("TRIMTAB_VARIANT", ""), int(os.environ.get("TRIMTAB_LAUNCH", "0"))
        with open(os.environ["STEP_LOG"], "a", encoding="utf-8") as file:
            file.write(json.dumps([*launch, iteration]) + "\n")


def train(forward_step_func, data_iterator, model, optimizer):
    args = get_args()
    iteration = args.iteration
    while iteration < args.train_iters:
        args.curr_iteration = iteration
        loss_dict, skipped_iter, should_checkpoint, should_exit, exit_code, grad_norm, num_zeros_in_grad = train_step(
            forward_step_func, data_iterator, model, optimizer, None, None)
        iteration += 1
        training_log(iteration)
        if checkpoint_and_decide_exit(args, iteration, model, optimizer):
            distributed.destroy_process_group()
            sys.exit(exit_code)
    return iteration


def setup_optimizer(args, model):
    if args.use_distributed_optimizer:
        return ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=args.lr)
    return torch.optim.AdamW(model.parameters(), lr=args.lr)


def pretrain(dataset_provider, model_provider, forward_step_func):
    args = parse_args()
    distributed.init_process_group("gloo")
    args.data_parallel_size = distributed.get_world_size() // args.tensor_model_parallel_size
    set_global_variables(args)
    torch.manual_seed(1)
    model = model_provider(args)
    optimizer = setup_optimizer(args, model)
    args.iteration = load_checkpoint(args, model, optimizer)
    iteration = train(forward_step_func, dataset_provider(args), model, optimizer)
    save_checkpoint(args, iteration, model, optimizer)
    distributed.destroy_process_group()

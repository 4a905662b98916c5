"""A live change of plan: which operator's state goes where, what that costs in memory, and the move itself.

Operators move one after the other in one global order, each with a blocking send and receive, so no cycle of waiting
exists and never more than one operator is held twice. Who moves what is a pure function of the two plans.
Main thread only.
"""
import dataclasses

import torch

from operator_state import STATE_ROWS, OperatorState, held_bytes, state_bytes


@dataclasses.dataclass(frozen=True)
class Move:
    operator: int
    source: int
    destinations: tuple  # Ranks that hold it under the new plan and did not before.


def moves(old, new, operator_count):
    """One Move for each operator, in order; destinations are empty where nothing moves."""
    result = []
    for operator in range(operator_count):
        before = old.stage_of_operator(operator).devices
        after = new.stage_of_operator(operator).devices
        result.append(Move(operator, old.owner(operator), tuple(rank for rank in after if rank not in before)))
    return result


def peak_state_bytes(old, new, rank, specs, config):
    """The most bytes of operator state that `rank` holds at any moment of the change, and under the new plan."""
    stays = {op.index for op in specs if rank in new.stage_of_operator(op.index).devices}
    held = {op.index for op in specs if rank in old.stage_of_operator(op.index).devices}
    # Gradients are dropped first and made anew last.
    now = peak = sum(state_bytes(op, config) for op in specs if op.index in held)
    for op in specs:
        if op.index in stays and op.index not in held:
            now += state_bytes(op, config)
            peak = max(peak, now)
        elif op.index in held and op.index not in stays:
            now -= state_bytes(op, config)
    settled = sum(held_bytes(op, config) for op in specs if op.index in stays)
    return max(peak, settled), settled


def move_states(old, new, rank, specs, config, groups, states, device, faults, step):
    """Bring `states` (OperatorStates in order) from the old plan to the new; returns the new list.

    Takes the list's contents over: what this rank no longer needs is freed as the move goes. A failure in the middle
    leaves no usable state behind; the snapshot written before is what remains.
    """
    flat = {state.spec.index: state.state for state in states}
    states.clear()
    stage = new.stage_of_rank(rank)
    for move in moves(old, new, len(specs)):
        if move.operator == len(specs) // 2:
            faults.reach("moving", step)
        if rank == move.source:
            for peer in move.destinations:
                groups.send_state(flat[move.operator], peer)
        elif rank in move.destinations:
            count = state_bytes(specs[move.operator], config) // (4 * STATE_ROWS)
            flat[move.operator] = torch.empty(STATE_ROWS, count, device=device)
            groups.receive_state(flat[move.operator], move.source)
        if not stage.begin <= move.operator < stage.end:
            flat.pop(move.operator, None)
    return [OperatorState(specs[index], config, device, flat.pop(index)) for index in range(stage.begin, stage.end)]

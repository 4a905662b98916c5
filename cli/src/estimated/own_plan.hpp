#pragma once

// `evaluate` without measured costs: a uniform plan of the user's own, by options or by plan.json, and its estimate.

#include <string>

#include "estimated/asked.hpp"
#include "estimates/find.hpp"

namespace trimtab::cli {

// Empty where the option was not given.
struct OwnPlanFlags {
  AskedFlags asked;
  std::string tensor, stages, chunks, context, replicas, microbatch;
  std::string zero, sharded_over, recompute, recompute_layers;
  bool offload = false;
};

// Those of add_asked_flags(), and --tp, --pp, --vpp, --cp, --dp, --microbatch, --zero, --sharded-over, --recompute,
// --recompute-layers, --offload.
void add_own_plan_flags(CLI::App* verb, OwnPlanFlags& flags);

// Whether anything of them was given.
[[nodiscard]] bool asks_estimate(const OwnPlanFlags& flags);

// Prints the estimate. `plan_path`: plan.json, in place of the options; empty = the options. Exit code 1: it rather
// does not fit.
[[nodiscard]] Result<int> estimate_own_plan(const OwnPlanFlags& flags, const std::string& plan_path, bool json,
                                            Console& console);

}  // namespace trimtab::cli

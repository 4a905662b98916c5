#include "estimates/uniform_plan.hpp"

namespace trimtab::estimates {

namespace {

constexpr std::int32_t kMost = 1 << 22;

std::string number(std::int64_t value) {
  return std::to_string(value);
}

Status check_numbers(const UniformPlan& plan) {
  struct Named {
    const char* name;
    std::int32_t value;
  };
  for (const Named& one : {Named{"dp", plan.replicas},
                           {"tp", plan.tensor},
                           {"pp", plan.stages},
                           {"vpp", plan.chunks},
                           {"cp", plan.context},
                           {"microbatch", plan.microbatch},
                           {"global_batch", plan.global_batch}}) {
    if (one.value >= 1 && one.value <= kMost) continue;
    return bad_input(std::string(one.name) + " " + number(one.value) + ": expected 1 to " + number(kMost));
  }
  std::int64_t devices = 1;
  for (const std::int32_t degree : {plan.replicas, plan.tensor, plan.stages, plan.context}) {
    devices *= degree;
    if (devices > kMost) return bad_input("dp x tp x pp x cp are more than " + number(kMost) + " devices");
  }
  if (plan.gradient_bytes < 1 || plan.optimizer_bytes < 0)
    return bad_input("gradient_bytes must be above 0, optimizer_bytes not below");
  if (!(plan.recomputed_share >= 0 && plan.recomputed_share <= 1))
    return bad_input("recomputed_share must be from 0 to 1");
  if (!(plan.offloaded_activations >= 0 && plan.offloaded_activations <= 1)) {
    return bad_input("offloaded_activations must be from 0 to 1");
  }
  return {};
}

}  // namespace

Status check(const UniformPlan& plan, const ModelShape& shape) {
  TRIMTAB_TRY_STATUS(check_numbers(plan));
  if (shape.heads % plan.tensor != 0) {
    return bad_input("tp " + number(plan.tensor) + " does not divide the model's " + number(shape.heads) + " heads");
  }
  if (std::int64_t{plan.stages} * plan.chunks > shape.layers) {
    return bad_input("pp " + number(plan.stages) + " x vpp " + number(plan.chunks) + " are more than the model's " +
                     number(shape.layers) + " layers");
  }
  const std::int64_t at_once = std::int64_t{plan.microbatch} * plan.replicas;
  if (plan.global_batch % at_once != 0) {
    return bad_input("microbatch " + number(plan.microbatch) + " x dp " + number(plan.replicas) +
                     " does not divide global_batch " + number(plan.global_batch));
  }
  if (plan.chunks > 1 && (plan.stages == 1 || plan.microbatches() % plan.stages != 0)) {
    return bad_input("vpp " + number(plan.chunks) + " needs several stages, and microbatches (" +
                     number(plan.microbatches()) + ") that pp " + number(plan.stages) + " divides");
  }
  if (plan.sharded_over > 0 && (plan.replicas * plan.context) % plan.sharded_over != 0) {
    return bad_input("sharded_over " + number(plan.sharded_over) + " does not divide dp x cp " +
                     number(plan.replicas * plan.context));
  }
  if (shape.sequence % plan.context != 0) {
    return bad_input("cp " + number(plan.context) + " does not divide sequence " + number(shape.sequence));
  }
  return {};
}

}  // namespace trimtab::estimates

#pragma once

// How long a step of a plan takes, and what memory it needs, before anything is measured. Arithmetic from data sheets
// and a few constants (estimates/constants.hpp says which measurements they have seen). Every figure is an estimate
// with an interval. docs/estimates.md tells the model. Pure: any thread.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "estimates/hardware.hpp"
#include "estimates/model_shape.hpp"
#include "estimates/uniform_plan.hpp"

namespace trimtab::estimates {

struct Constants;  // estimates/constants.hpp

// Of one device, in bytes, at the moment when the device needs most. Doubles: sums of shares.
struct StageMemory {
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;  // kept for the backward passes of all microbatches that are under way
  double peak = 0;         // of what lives within a pass or an update: logits, gathered parameters, buffers
  [[nodiscard]] double allocated() const { return parameters + gradients + optimizer + activations + peak; }
};

struct MemoryEstimate {
  std::vector<StageMemory> stages;
  std::int32_t fullest = 0;    // the stage that needs most
  double allocated = 0;        // of that stage, as torch.cuda.max_memory_allocated() tells it
  double reserved = 0;         // with what the allocator holds beside it (max_memory_reserved)
  double process = 0;          // with the CUDA context and NCCL's buffers, as nvidia-smi tells it
  double fits = 0;             // chance that it fits, 0 to 1
  double first_allocated = 0;  // of the first stage, whatever the fullest is
  double first_reserved = 0;
};

// Seconds of a step, of the slowest stage's device. They add up to the step.
struct StepParts {
  double computation = 0;
  double recomputation = 0;
  double launches = 0;  // the host is the limit
  double tensor = 0;    // communication that nothing hides, by kind
  double context = 0;
  double transfers = 0;
  double gradients = 0;
  double parameters = 0;
  double bubble = 0;
  double optimizer = 0;
  [[nodiscard]] double sum() const;
};

struct NamedPart {
  std::string_view name;  // in an answer's JSON
  double StepParts::*seconds;
};

inline constexpr std::array kStepParts = {
    NamedPart{"computation", &StepParts::computation}, NamedPart{"recomputation", &StepParts::recomputation},
    NamedPart{"launches", &StepParts::launches},       NamedPart{"tensor", &StepParts::tensor},
    NamedPart{"context", &StepParts::context},         NamedPart{"transfers", &StepParts::transfers},
    NamedPart{"gradients", &StepParts::gradients},     NamedPart{"parameters", &StepParts::parameters},
    NamedPart{"bubble", &StepParts::bubble},           NamedPart{"optimizer", &StepParts::optimizer}};

inline double StepParts::sum() const {
  double all = 0;
  for (const NamedPart& part : kStepParts) all += this->*part.seconds;
  return all;
}

struct Estimate {
  double step_s = 0;
  double least_s = 0;  // between these nine of ten measured steps are expected
  double most_s = 0;
  StepParts parts;
  MemoryEstimate memory;
  double tokens_per_s_per_device = 0;
  double utilization = 0;  // of the peak of the plan's precision, model's operations alone, whole attention counted
};

// REQUIRES: check(plan, shape), and as many devices as the machine has.
[[nodiscard]] Estimate estimate(const Machine& machine, const ModelShape& shape, const UniformPlan& plan,
                                const Constants& constants);
[[nodiscard]] Estimate estimate(const Machine& machine, const ModelShape& shape, const UniformPlan& plan);

// The memory alone. Sure for all plans of this shape on this GPU, so a search asks it first.
[[nodiscard]] MemoryEstimate estimate_memory(const Machine& machine, const ModelShape& shape, const UniformPlan& plan,
                                             const Constants& constants);

}  // namespace trimtab::estimates

#pragma once

// What `plan find` and `evaluate` are asked without measured costs: a model's own configuration, GPUs and a network by
// name.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimates/measured_steps.hpp"
#include "estimates/told_plan.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

struct AskedFlags {
  std::string hf;
  std::string megatron;
  std::vector<std::string> neutral;
  std::string gpus;
  std::string network;
  std::string sequence;
  std::string batch;
  std::string precision;  // empty = the model's own, or bf16
  std::string target = "megatron";
  std::string name;
  std::string measured;
};

// --hf, --megatron, --neutral, --gpus, --network, --sequence, --global-batch, --precision, --target, --name,
// --measured.
void add_asked_flags(CLI::App* verb, AskedFlags& flags);

struct Asked {
  std::vector<estimates::Machine> machines;  // at least one, by their number of devices
  Model model;
  estimates::ModelShape shape;
  std::int32_t global_batch = 1;
  estimates::Target target = estimates::Target::kMegatron;
  estimates::Precision precision = estimates::Precision::kBfloat16;
  std::int32_t gradient_bytes = 4;  // of a parameter, as its configuration has them
  std::int32_t optimizer_bytes = 12;
  std::optional<estimates::Correction> correction;  // by steps that the user measured
  std::vector<std::string> assumed;                 // what nobody said, and is told
};
[[nodiscard]] Result<Asked> read_asked(const AskedFlags& flags);

// "bf16".
[[nodiscard]] std::string_view word_of(estimates::Precision precision);

// Kinds of recomputation by the words of a question (docs/estimates.md).
[[nodiscard]] Result<estimates::Recomputed> recomputed_by_name(const std::string& flag, const std::string& name);
[[nodiscard]] std::string_view word_of(estimates::Recomputed kind);

}  // namespace trimtab::cli

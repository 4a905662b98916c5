#pragma once

// What a script that trains through trimtab.parallel says of the plan that it runs by itself: the arguments of load().
// Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "init/option_words.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab::cli {

struct ParallelScript {
  std::string load;  // its arguments, as they stand there; for people
  std::string kind = "ddp";
  std::optional<std::int32_t> samples;  // of a microbatch of one rank; nothing: the script does not say it plainly
  std::int32_t microbatches = 1;

  [[nodiscard]] std::optional<std::int32_t> global_batch(std::int32_t ranks) const;
};

// Numbers are taken as they stand there, and `given.batch_size` by the command's --batch-size. Nothing: the script does
// not call load().
[[nodiscard]] std::optional<ParallelScript> parallel_script(std::string_view text, const Words& options);

// The plan that it runs where nobody gives it one. Fails where that cannot be a plan of the model. REQUIRES: its
// samples are known.
[[nodiscard]] Result<Plan> own_plan(const ParallelScript& script, const Model& model, std::int32_t ranks);

}  // namespace trimtab::cli

#pragma once

// The rows of Oases' published profile, as they are in the file. Times in ms, one sub-batch or one batch of
// `samples` sequences of 1,024 tokens on one tensor-parallel group, float32.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace trimtab::published {

inline constexpr const char* kOasesFile = "profile_3090.csv";
inline constexpr std::int64_t kOasesSequence = 1024;

struct OasesRow {
  std::int32_t hidden = 0;
  std::int32_t tp = 1;
  std::int32_t samples = 1;
  double attention_forward_ms = 0, attention_backward_ms = 0;  // without communication and recompute
  double mlp_forward_ms = 0, mlp_backward_ms = 0;
  double all_reduce_ms = 0;       // of one [sequence, samples, hidden] tensor
  double runtime_buffer_mib = 0;  // rise of the peak in the first backward pass
};

// DIRECTORY/profile_3090.csv. A row with valid = 0 was not measured, must be empty, and is left out.
[[nodiscard]] Result<std::vector<OasesRow>> read_oases_profile(const std::string& directory);

}  // namespace trimtab::published

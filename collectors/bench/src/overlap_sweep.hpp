#pragma once

// The table of overlap slowdowns of one GPU: kernels of a model beside collective-like kernels of 1 to 32 channels at
// three paces, and beside copies to and from the host.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "items.hpp"
#include "overlap.hpp"

namespace trimtab::bench {

struct SweepRequest {
  std::int64_t samples = 1;
  Dtype dtype = Dtype::kFloat32;
  std::vector<std::string> classes = {"gemm", "attention", "normalization", "elementwise"};
  std::vector<std::int32_t> channels = {1, 2, 4, 8, 16, 24, 32};
  Bytes bytes_per_channel = Bytes{4} << 20;
  Bytes copy_bytes = Bytes{16} << 20;
};

// "gemm" of the operator with the most work, "attention" of the first that has it, "normalization" and "elementwise"
// where they occur. Fails where the model has none of these.
[[nodiscard]] Result<std::vector<OverlapCase>> sweep_cases(const SweepRequest& request, const ModelOperators& model,
                                                           const Ranks& ranks);

struct SweepRow {
  OverlapCase one;
  Result<OverlapResult> result;
};

// Prints, as each case ends, its two cost lines (as item 0) and a line {"overlap": {...}} with its estimates, or
// {"overlap": {..., "error": "why"}}. A case that fails does not end the sweep.
[[nodiscard]] std::vector<SweepRow> run_sweep(std::vector<OverlapCase> cases, Bench& bench,
                                              const std::function<void(const std::string&)>& print);

// For people, with what was not measured at the end.
[[nodiscard]] std::string sweep_table(const std::vector<SweepRow>& rows, const DeviceFacts& device);

}  // namespace trimtab::bench

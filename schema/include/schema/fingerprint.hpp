#pragma once

// The hardware fingerprint: layered keys of all that changes a cost. Two fingerprints are equal when every layer is;
// they are near when only the software layer's versions differ. Plain values.

#include <map>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace trimtab {

struct Fingerprint {
  std::map<std::string, std::string> device;       // cpu model, cores, flags, memory; or GPU model, clocks, power cap
  std::map<std::string, std::string> software;     // driver, CUDA, NCCL, framework; or BLAS, Gloo
  std::map<std::string, std::string> fabric;       // link topology
  std::map<std::string, std::string> environment;  // NCCL variables, MPS, thread counts, core type

  bool operator==(const Fingerprint&) const = default;
};

// 16 hex digits over the canonical JSON.
[[nodiscard]] std::string hash(const Fingerprint& fingerprint);
// Same device, fabric and environment, other software.
[[nodiscard]] bool near(const Fingerprint& a, const Fingerprint& b);

[[nodiscard]] std::string to_json(const Fingerprint& fingerprint);
[[nodiscard]] Result<Fingerprint> parse_fingerprint(std::string_view json, std::string_view source);

}  // namespace trimtab

#pragma once

// The hardware fingerprint: layered keys of all that changes a cost. Two fingerprints are equal when every layer is.
// Plain values.

#include <map>
#include <memory>
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

[[nodiscard]] std::string to_json(const Fingerprint& fingerprint);
[[nodiscard]] Result<Fingerprint> parse_fingerprint(std::string_view json, std::string_view source);

// A fingerprint as databases name it: hash and canonical JSON, made once and shared by copies.
class NamedFingerprint {
 public:
  NamedFingerprint(const Fingerprint& fingerprint);  // implicit: it is the same thing, named
  [[nodiscard]] const std::string& hash() const { return names_->hash; }
  [[nodiscard]] const std::string& json() const { return names_->json; }

 private:
  struct Names {
    std::string hash;
    std::string json;
  };
  std::shared_ptr<const Names> names_;
};

}  // namespace trimtab

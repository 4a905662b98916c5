#pragma once

// The hardware fingerprint: layered keys of all that changes a cost. Two fingerprints are equal when every layer is.
// Equal hardware shares costs. Of near hardware costs are a prior, which a few probes confirm or replace
// (tuner/near_costs.hpp). Plain values.

#include <map>
#include <memory>
#include <optional>
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

// Whether its ranks compute on GPUs, which wait for what their hosts launch.
[[nodiscard]] bool is_gpu(const Fingerprint& node);

// 16 hex digits over the canonical JSON.
[[nodiscard]] std::string hash(const Fingerprint& fingerprint);

[[nodiscard]] std::string to_json(const Fingerprint& fingerprint);
[[nodiscard]] Result<Fingerprint> parse_fingerprint(std::string_view json, std::string_view source);

// Whether a variable of this name changes the costs of a process on such a node: thread counts, core types, bindings,
// NCCL_*; on a GPU node also CUDA's and its libraries', but not what NCCL only logs.
[[nodiscard]] bool changes_costs(const std::string& variable, const Fingerprint& node);

// Of a job's costs on a node: the node's, with the variables of the job's environment that change costs, and with what
// the job says that it runs on. The job's keys replace the node's.
[[nodiscard]] Fingerprint fingerprint_of_job(Fingerprint node, const std::map<std::string, std::string>& environment,
                                             const std::map<std::string, std::string>& software);

// How far costs of one hardware may be from another's, where they may be taken over at all.
struct Distance {
  double steps = 0;         // 0 = equal
  std::string differences;  // "driver 550.54 instead of 535.161, kernel 6.5 instead of 6.1"
  // By how much costs may differ before anything is measured: a standard deviation of logarithms.
  [[nodiscard]] double doubt() const { return kDoubtOfStep * steps; }
  static constexpr double kDoubtOfStep = 0.05;
};
// The one rule of what is near. Device, fabric and environment must be equal: other devices, links, NCCL variables or
// thread counts change costs by any factor. Only software may differ, at most by kFarthest steps. A version that
// differs in its first number, or that only one side names, is two steps, and one that differs later is one. The kernel
// and the C library are half of that: what ranks compute hardly passes through them. Memory whose size is told
// differently by a gibibyte in thirty is the same memory. Nothing: not near.
inline constexpr double kFarthest = 6;
[[nodiscard]] std::optional<Distance> distance(const Fingerprint& from, const Fingerprint& to);

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

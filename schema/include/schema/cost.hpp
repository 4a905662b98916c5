#pragma once

// A cost: a measured quantity of one hardware fingerprint, with its statistics. Kinds, units and key fields are those
// of docs/protocols.md, "Cost kinds". Plain values.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/cost_source.hpp"
#include "schema/statistics.hpp"

namespace trimtab {

enum class CostKind : std::uint8_t {
  kOperatorForward,
  kOperatorBackward,
  kOperatorStoredBytes,
  kOperatorWorkingBytes,
  // Published profiles have these too.
  kOperatorInputBytes,
  kOperatorOutputBytes,
  kOperatorParameterBytes,
  kOperatorForwardReserveBytes,
  kOperatorBackwardReserveBytes,
  kOptimizerStep,
  kCollective,
  kPointToPoint,
  kOverlapComputation,
  kOverlapCommunication,
  kProcessBytes,
  kStepOverhead,
  kStepTime,
  kRange,   // any other annotated range, by name
  kKernel,  // one kernel on the device, by its signature
};

[[nodiscard]] std::string_view to_string(CostKind kind);  // "operator_forward", ...
[[nodiscard]] Result<CostKind> parse_cost_kind(std::string_view text);
[[nodiscard]] std::string_view unit_of(CostKind kind);  // "ns", "bytes" or "ppm"

inline constexpr std::string_view kLaunch = "launch";

struct CostKey {
  CostKind kind = CostKind::kRange;
  std::string subject;  // cost_key, primitive, plan hash or range name
  std::string dtype;    // empty where it does not matter
  std::int32_t samples = 0;
  std::int32_t tp = 1;
  std::string sharding = "default";
  std::int64_t bytes = 0;
  std::int32_t group_size = 0;
  std::string placement;  // a link level; collectives and transfers: "intra_node" where missing
  // How a collective was run, where that is known: NCCL's names in lower case ("ring", "ll128"), and its channels. Of a
  // pass or an update: "launch" is what its host takes to issue it, "compiled" or "graph" as such ("" by its kernels).
  std::string algorithm = {};
  std::string protocol = {};
  std::int32_t channels = 0;
  std::string kernel_class = {};  // of overlap slowdowns: the computation's ("gemm", ...); else empty

  // What a host takes to issue a pass or an update, and that pass or update.
  [[nodiscard]] bool is_launch() const { return kind <= CostKind::kOptimizerStep && algorithm == kLaunch; }
  [[nodiscard]] CostKey launch() const;
  [[nodiscard]] CostKey launched() const;

  // Whether it says how a collective was run or what ran beside it: seen in training, under conditions that a plan's
  // price does not know; or what a host takes. For reports, NCCL's choices and calibration; it stands for no plain
  // cost.
  [[nodiscard]] bool particular() const {
    return !algorithm.empty() || !protocol.empty() || channels != 0 || !kernel_class.empty();
  }

  auto operator<=>(const CostKey&) const = default;
};

// The same key with every default written out: what is stored and looked up. Keys that mean the same become equal.
[[nodiscard]] CostKey canonical(CostKey key);

// For messages: "operator_forward attention-h256-t128 float32 samples=2 tp=1 default".
[[nodiscard]] std::string describe(const CostKey& key);

// JSON as in docs/protocols.md; missing fields take the defaults above. The error names the offending field.
[[nodiscard]] Result<CostKey> parse_cost_key(std::string_view json);
[[nodiscard]] std::string to_json(const CostKey& key);

// One source's values of a key. Several costs of one key are of different sources.
struct Cost {
  CostKey key;
  Statistics statistics;
  CostSource source = {};
};

}  // namespace trimtab

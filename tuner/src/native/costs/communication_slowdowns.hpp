#pragma once

// What one communication and whatever runs beside it slow each other down by, looked up once for all that a search
// asks: computations by kind, and other communications by primitive. One owner; not thread-safe.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>

#include "native/costs/computation_kind.hpp"
#include "native/costs/link_costs.hpp"
#include "native/costs/overlap_costs.hpp"
#include "solvers/overlap_slowdown.hpp"

namespace trimtab::tuner {

struct CommunicationSlowdowns {
  // This communication, beside another one of that primitive; nothing where nobody has seen the two at once.
  struct Beside {
    double factor = 0;
    double error = 0;
    bool operator==(const Beside&) const = default;
    [[nodiscard]] bool measured() const { return factor >= 1; }
  };

  Primitive primitive = Primitive::kAllReduce;                 // where some of `communication` is measured
  std::array<OverlapSlowdown, kComputationKinds> computation;  // beside a computation of that kind
  std::array<Beside, kPrimitives> communication;
  // Of a gather of parameters and a reduce-scatter of the same gradients at once: a computation beside both.
  std::array<OverlapSlowdown, kComputationKinds> both;
  bool alike = true;  // `computation` is the same of all kinds
  bool operator==(const CommunicationSlowdowns&) const = default;

  [[nodiscard]] const OverlapSlowdown& beside(ComputationKind kind) const {
    return computation[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] const Beside& beside(Primitive other) const { return communication[static_cast<std::size_t>(other)]; }
};

inline constexpr CommunicationSlowdowns kNoSlowdowns{};

// Of one communication (as the computation's side) beside another: both as measured, else the other waits.
[[nodiscard]] OverlapSlowdown beside_each_other(const CommunicationSlowdowns& one, const CommunicationSlowdowns& other);

class SlowdownCatalog {
 public:
  // The costs must outlive the catalog.
  explicit SlowdownCatalog(const OverlapCosts& costs) : costs_(&costs) {}
  // Valid as long as the catalog; what is alike is one and the same, and what is not slowed down &kNoSlowdowns.
  const CommunicationSlowdowns* of(Primitive primitive, std::int64_t bytes, std::int32_t group_size,
                                   Placement placement);

 private:
  using Key = std::tuple<Primitive, std::int64_t, std::int32_t, Placement>;
  const OverlapCosts* costs_;
  std::deque<CommunicationSlowdowns> known_;
  std::map<Key, const CommunicationSlowdowns*> found_;
};

}  // namespace trimtab::tuner

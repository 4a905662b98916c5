#pragma once

// What one communication and whatever runs beside it slow each other down by, looked up once for all that a search
// asks: computations by kind, and other communications by primitive. One owner; not thread-safe.

#include <deque>
#include <tuple>

#include "native/costs/overlap_costs.hpp"

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

// What runs beside communications in a pass (overlapped_pass.hpp): an operator's kernels, the sums of its
// tensor-parallel ranks, or a block of several operators. Plain values.

// Of one kind all the time.
struct KindWork {
  ComputationKind kind = ComputationKind::kUnknown;

  [[nodiscard]] OverlapSlowdown operator()(const CommunicationSlowdowns& of) const { return of.beside(kind); }
  [[nodiscard]] OverlapSlowdown both(const CommunicationSlowdowns& sent, const CommunicationSlowdowns&) const {
    return sent.both[static_cast<std::size_t>(kind)];
  }
};

// One or two collectives, in turn, that take the link; null = none. A communication that nobody has seen beside them
// waits for them.
struct SumWork {
  std::array<const CommunicationSlowdowns*, 2> sums{};

  [[nodiscard]] OverlapSlowdown operator()(const CommunicationSlowdowns& of) const {
    if (sums[0] == nullptr) return kCommunicationWaits;
    const OverlapSlowdown first = beside_each_other(*sums[0], of);
    if (sums[1] == nullptr || !first.measured) return first;
    const OverlapSlowdown second = beside_each_other(*sums[1], of);
    if (!second.measured) return kCommunicationWaits;
    return {(first.computation + second.computation) / 2, 2 / (1 / first.communication + 1 / second.communication),
            true, (first.computation_error + second.computation_error) / 2,
            (first.communication_error + second.communication_error) / 2};
  }
  // Each adds what it adds alone.
  [[nodiscard]] OverlapSlowdown both(const CommunicationSlowdowns& sent, const CommunicationSlowdowns& gather) const {
    const OverlapSlowdown one = (*this)(sent);
    const OverlapSlowdown other = (*this)(gather);
    return {one.computation + other.computation - 1, 1, true, one.computation_error + other.computation_error, 0};
  }
};

// Operators of several kinds, by their shares of the time that they compute alone. While a kind computes, a
// communication advances at 1 / beta of its speed, so beta is the harmonic mean over the time that each kind takes.
struct MixedWork {
  std::array<double, kComputationKinds> shares{};  // add up to 1

  [[nodiscard]] OverlapSlowdown operator()(const CommunicationSlowdowns& of) const {
    if (of.alike) return of.computation[0];
    OverlapSlowdown mean{0, 0, true};
    double sent = 0;  // of the communication, at full speed
    for (std::size_t kind = 0; kind < kComputationKinds; ++kind) {
      const OverlapSlowdown& beside = of.computation[kind];
      const double time = shares[kind] * beside.computation;
      mean.computation += time;
      sent += time / beside.communication;
      mean.computation_error += shares[kind] * beside.computation_error;
      mean.communication_error += shares[kind] * beside.communication_error;
      mean.measured = mean.measured && (beside.measured || shares[kind] <= 0);
    }
    mean.communication = mean.computation / sent;
    return mean;
  }
  [[nodiscard]] OverlapSlowdown both(const CommunicationSlowdowns& sent, const CommunicationSlowdowns&) const {
    OverlapSlowdown mean{0, 1, true};
    for (std::size_t kind = 0; kind < kComputationKinds; ++kind) {
      mean.computation += shares[kind] * sent.both[kind].computation;
      mean.computation_error += shares[kind] * sent.both[kind].computation_error;
    }
    return mean;
  }
};

}  // namespace trimtab::tuner

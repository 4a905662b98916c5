#pragma once

// What computations and communications slow each other down by: as running jobs showed it, by the class of the
// computation's kernels and by what was sent, as the benchmark measured it, and as the GPU's stand-ins for collectives
// suggest. Built once; any thread.
//
// Alpha (of computing) and beta (of communicating) are looked up apart, each in this order, every step less sure:
//   training of a class   the communication's own primitive, group and placement, beside the kernel classes that the
//                         operator is made of, at sizes within a factor of four; algorithms, protocols and channels
//                         pooled as NCCL chose them
//   training              the same beside whatever class
//   benchmark             of the primitive, at its nearest sizes
//   training, other size  of the primitive, at the nearest sizes, or at sizes that nobody has told
//   another primitive     of the same group and placement, the same steps at the size of the same tensor
//   stand-in              the GPU's own table: thread blocks of as many channels that copy at a link's pace. An
//   estimate none                  no slowdown
//
// Training comes before the benchmark because it saw the job itself: the class of the kernel, the size, NCCL's own
// choice and the pace of both. It does so where it has kEnoughSlowdowns values. Each of those is a block of at least
// sixteen occurrences whose own error is known (4 % of what the time beside costs,
// agent/src/costs/overlap_regression.hpp); four of them also say, with three degrees of freedom, how blocks differ, and
// fewer do not. The two are never averaged.

#include "native/costs/link_costs.hpp"
#include "native/costs/slowdown_curve.hpp"
#include "solvers/overlap_slowdown.hpp"

namespace trimtab::tuner {

enum class OverlapBasis : std::uint8_t {
  kTrainingOfClass,
  kTraining,
  kBenchmark,
  kTrainingOtherSize,
  kOtherPrimitive,
  kStandIn,
  kNone,
};
inline constexpr std::size_t kOverlapBases = 7;
inline constexpr double kEnoughSlowdowns = 4;
inline constexpr std::size_t kCollectivePrimitives = 5;  // sends and receives among them

// A communication: "all_reduce", ..., "send_recv" (among two at a time, whatever the group).
struct OverlapSubject {
  std::string_view primitive;
  std::int64_t bytes = 0;  // a rank's input; 0 = not known
  std::int32_t group_size = 0;
  Placement placement = Placement::kIntraNode;
};

struct Slowdown {
  double factor = 1;  // at least 1
  double error = 0;   // standard error, with what the step leaves open
  OverlapBasis basis = OverlapBasis::kNone;
  std::int32_t cost = -1;  // for rests_on()

  [[nodiscard]] bool measured() const { return basis < OverlapBasis::kStandIn; }
};

struct Slowdowns {
  Slowdown computation;    // alpha
  Slowdown communication;  // beta

  [[nodiscard]] OverlapSlowdown plain() const {
    return {computation.factor, communication.factor, computation.measured() && communication.measured(),
            computation.error, communication.error};
  }
};

class OverlapCosts {
 public:
  OverlapCosts() = default;
  explicit OverlapCosts(std::span<const Cost> costs);

  // Whether any slowdown is known at all.
  [[nodiscard]] bool empty() const { return keys_.empty(); }
  [[nodiscard]] Slowdowns beside(const OverlapSubject& communication, ComputationKind computation) const;
  // What `first` is slowed down by while `second` communicates too, with nothing computed; only training shows it.
  [[nodiscard]] Slowdown beside_communication(const OverlapSubject& first, std::string_view second) const;
  // What a computation is slowed down by while both communicate: as training showed the two together, else what either
  // adds alone. `second_bytes`: its own input.
  [[nodiscard]] Slowdown beside_both(const OverlapSubject& first, std::string_view second, std::int64_t second_bytes,
                                     ComputationKind computation) const;

  // As the published models have it: the benchmark's all-reduce of the largest size. Small messages end before they can
  // disturb anything.
  [[nodiscard]] OverlapSlowdown of_benchmark(std::int32_t group_size, Placement placement) const;
  // Whether training has measured what this key of a benchmark asks for, near its size.
  [[nodiscard]] bool seen_in_training(const CostKey& key) const;
  // What a slowdown rests on, for people: "training: overlap_computation all_reduce ...", "nothing measured".
  [[nodiscard]] std::string rests_on(const Slowdown& slowdown) const;

 private:
  enum class Side : std::uint8_t { kComputation, kCommunication };
  struct Asked {
    Side side = Side::kComputation;
    ComputationKind computation = ComputationKind::kUnknown;
  };
  struct Place {
    std::string subject;
    std::int32_t group_size = 0;
    Placement placement = Placement::kIntraNode;
    auto operator<=>(const Place&) const = default;
  };
  using BySide = std::array<ClassedSlowdowns, 2>;
  struct Known {
    BySide training;
    BySide benchmark;
  };
  struct Found {
    const Known* own = nullptr;
    std::array<const Known*, kCollectivePrimitives> others{};
  };
  // Channels that NCCL chose for messages of one size.
  struct Chosen {
    double values = 0;
    double channels = 0;  // added up
  };
  struct Largest {
    std::int64_t bytes = -1;
    Statistics slowdown;
  };

  void add_slowdown(const Cost& cost);
  void add_choice(const Cost& cost);
  void add_largest(const Cost& cost);
  void settle();
  [[nodiscard]] const Known* find(const OverlapSubject& of) const;
  [[nodiscard]] Found all(const OverlapSubject& of) const;
  [[nodiscard]] Slowdown look_up(const OverlapSubject& of, const Found& found, const Asked& asked) const;
  [[nodiscard]] static Slowdown at(const Known& known, std::int64_t bytes, const Asked& asked, OverlapBasis step);
  [[nodiscard]] Slowdown of_stand_in(const OverlapSubject& of, const Asked& asked) const;
  [[nodiscard]] std::int32_t channels_of(const OverlapSubject& of) const;

  std::vector<CostKey> keys_;  // of the slowdowns among the costs that were given
  std::map<Place, Known> known_;
  std::map<std::string, BySide> stand_ins_;                  // over channels
  std::map<Place, std::map<std::int64_t, Chosen>> choices_;  // by bytes
  std::map<std::pair<std::int32_t, Placement>, std::array<Largest, 2>> largest_;
};

}  // namespace trimtab::tuner

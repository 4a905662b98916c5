#pragma once

// Costs of near hardware (schema/fingerprint.hpp, distance()) as a prior: the one place that decides which few costs
// are measured first, what they say of the others, and what is taken over (docs/cost_model.md, "Near hardware"). Pure;
// any thread.
//
// Costs are of classes that a change of software moves together. Of each class a few costs are measured on the new
// hardware. With r the logarithm of a probe's median over the near hardware's, and its noise that of both with 2 % for
// what many values do not show:
//   * true r of a class are taken to lie around a common one, as far apart as the probes show beyond their noise.
//   Before
//     any probe that is a quarter of the distance's doubt, which counts as two probes;
//   * confirmed: the common r is within two of its standard errors of 0. Costs are taken over as they are;
//   * scaled: it is not. Costs are taken over, multiplied by it. Slowdowns of overlap never are;
//   * refuted: true r lie 10 % apart or more, or more than a factor of 1.65 away. All of the class is measured;
//   * unprobed: too few could be measured. All of the class is measured.
// Where what is to be measured cannot be, costs of the near hardware still stand for it, give or take all that they may
// be off. A pass that was measured behind a cover is not compared with one that was not: gaps are no change of a
// device. What a benchmark measured is taken over alone: not what training taught, and not the memory of a process.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schema/cost.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner {

struct NearHardware {
  std::string fingerprint;  // hash
  double doubt = 0;         // Distance::doubt()
  std::vector<Cost> costs;  // all that are known of it
};

enum class NearClass : std::uint8_t {
  kComputation,  // passes of operators, and updates
  kMemory,       // what operators store and work with
  kIntraNode,    // collectives and transfers inside of a node
  kInterNode,    // across nodes
  kOverlap,      // what computing and communicating at once slow each other down
  kHost,         // copies between device and host, and updates there
  kLaunches,     // what hosts take to issue passes and updates
};
inline constexpr std::size_t kNearClasses = 7;
[[nodiscard]] std::string_view to_string(NearClass of);  // "computation", "memory", "links inside nodes", ...

enum class NearVerdict : std::uint8_t { kUnprobed, kConfirmed, kScaled, kRefuted };
inline constexpr std::size_t kNearVerdicts = 4;
[[nodiscard]] std::string_view to_string(NearVerdict verdict);  // "unprobed", "confirmed", ...

// What probes say of a class that both are needed and known of the near hardware.
struct NearFinding {
  NearClass of = NearClass::kComputation;
  NearVerdict verdict = NearVerdict::kUnprobed;
  double factor = 1;        // of the near hardware's costs
  double doubt = 0;         // a standard deviation of logarithms, for each cost that is not measured
  std::int32_t probes = 0;  // costs that were compared

  [[nodiscard]] bool holds() const { return verdict == NearVerdict::kConfirmed || verdict == NearVerdict::kScaled; }
};
// "computation as it was (± 4 %, 7 probes)", "links inside nodes 1.12 times (± 6 %, 3 probes)", "overlap measured anew:
// 2 probes disagree".
[[nodiscard]] std::string describe(const NearFinding& finding);

// Which of the `needed` costs are measured first: the operators that matter most at a large and at a small size, a
// light one, an update, each with its launches; of each kind of links a small and a large message and a transfer; the
// overlap of one group; a process. Each of them takes at most a sixtieth of the time that measuring all takes, or is
// the smallest of its kind. Empty where that saves less than two thirds of all measurements. Sorted.
[[nodiscard]] std::vector<CostKey> near_probes(const Model& model, const std::vector<CostKey>& needed,
                                               const NearHardware& near);

// One for each class of the needed costs that the near hardware knows, in the order of classes. `here`: what is known
// of the new hardware; what a benchmark has measured there is compared, whenever that was.
[[nodiscard]] std::vector<NearFinding> compare_with_near(const std::vector<CostKey>& needed,
                                                         const std::vector<Cost>& here, const NearHardware& near);

// The near hardware's costs of these classes, as what is taken over (CostSource::Kind::kTakenOver). To be priced with
// beside those of the new hardware, which go before them.
[[nodiscard]] std::vector<Cost> take_over(const NearHardware& near, const std::vector<NearFinding>& findings);
// The classes that hold alone: what these fill need not be measured.
[[nodiscard]] std::vector<Cost> take_over_confirmed(const NearHardware& near, std::vector<NearFinding> findings);

}  // namespace trimtab::tuner

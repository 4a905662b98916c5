#pragma once

// Where a cost is from and under which conditions it was measured. Costs of different sources are never averaged: which
// of them prices a plan, tuner/cost_choice.hpp says. In the database and on the wire a source is a text (to_text()).
// Plain values.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace trimtab {

struct CostSource {
  enum class Kind : std::uint8_t {
    kBenchmark,  // the benchmark command: nothing else of the job ran
    kTraining,   // seen in a running job
    kImported,   // said by others
    kEstimated,  // derived, not measured
    kUnknown,    // a text that this release does not know
  };
  // What else the same rank ran meanwhile. An overlap slowdown is what a cost is beside its key's computation or
  // communication, and has kNotSaid.
  enum class Beside : std::uint8_t { kNotSaid, kNothing, kCommunication, kComputation };
  // Which clock timed it. kRanks: the stamps of all ranks of a collective, joined.
  enum class Clock : std::uint8_t { kNotSaid, kHost, kDevice, kRanks };

  Kind kind = Kind::kBenchmark;
  std::string name = {};  // of an import: who says it ("microsoft/SuperScaler@53d0036"); of kUnknown: the whole text
  Beside beside = Beside::kNotSaid;
  Clock clock = Clock::kNotSaid;
  bool waiting = false;    // contains waiting for other ranks
  bool disturbed = false;  // others took processor time of the machine meanwhile

  auto operator<=>(const CostSource&) const = default;
};

// "benchmark host-clock", "training alone device-clock", "training host-clock waiting disturbed", "import:NAME".
[[nodiscard]] std::string to_text(const CostSource& source);
// Never fails: a text of another release is kUnknown. "active" and "passive" are what releases before this one wrote: a
// benchmark and a training of which no condition is known.
[[nodiscard]] CostSource parse_cost_source(std::string_view text);
// For people: "training, alone, by the device's clock", "training, condition unknown", "imported from NAME".
[[nodiscard]] std::string describe(const CostSource& source);

// Seen in training by a release that did not say under which condition: waiting and overlap may be in it.
[[nodiscard]] bool condition_unknown(const CostSource& source);

}  // namespace trimtab

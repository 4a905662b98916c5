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
    kTakenOver,  // a benchmark of near hardware (tuner/near_costs.hpp). Priced with, and never stored or sent
    kUnknown,    // a text that this release does not know
  };
  // What else the same rank ran meanwhile. An overlap slowdown is what a cost is beside its key's computation or
  // communication, and has kNotSaid.
  enum class Beside : std::uint8_t { kNotSaid, kNothing, kCommunication, kComputation };
  // Which clock timed it. kRanks: the stamps of all ranks of a collective, joined.
  enum class Clock : std::uint8_t { kNotSaid, kHost, kDevice, kRanks };

  Kind kind = Kind::kBenchmark;
  // Of an import: who says it ("microsoft/SuperScaler@53d0036"); of what is taken over: the other hardware's
  // fingerprint; of kUnknown: the whole text.
  std::string name = {};
  Beside beside = Beside::kNotSaid;
  Clock clock = Clock::kNotSaid;
  bool waiting = false;    // contains waiting for other ranks
  bool disturbed = false;  // others took the machine's processors meanwhile, or a GPU ran below its usual clock
  // Of a benchmark's pass on a device: behind a cover, so that no waiting for its host is in it. Its launch is known.
  bool covered = false;
  // Of what is taken over, in millionths: what its values are multiplied by, and by how much the logarithm of that may
  // be off (a standard deviation).
  std::int32_t times_ppm = 1'000'000;
  std::int32_t doubt_ppm = 0;

  auto operator<=>(const CostSource&) const = default;
};

// "benchmark host-clock", "benchmark alone device-clock covered", "training host-clock waiting disturbed",
// "import:NAME", and of others' records of a running job "import:NAME alone ranks-clock". "taken-over:FINGERPRINT
// times=1040000 doubt=50000".
[[nodiscard]] std::string to_text(const CostSource& source);
// Never fails: a text of another release is kUnknown. "active" and "passive" are what releases before this one wrote: a
// benchmark and a training of which no condition is known.
[[nodiscard]] CostSource parse_cost_source(std::string_view text);
// For people: "training, alone, by the device's clock", "training, condition unknown", "imported from NAME", "taken
// over from FINGERPRINT, times 1.04 (± 10 %)".
[[nodiscard]] std::string describe(const CostSource& source);

// Seen in a running job: by us, or by another program's record of one, which says a clock.
[[nodiscard]] bool seen_in_training(const CostSource& source);
// Seen in training by a release that did not say under which condition: waiting and overlap may be in it.
[[nodiscard]] bool condition_unknown(const CostSource& source);

}  // namespace trimtab

#pragma once

// What the host takes to issue the passes of operators and their updates: the second clock of a stage. A device that is
// told what to do more slowly than it does it waits for its host. Immutable once built; any thread.
//
// Such a cost is one of the pass with algorithm "launch" in its key (docs/protocols.md, "Cost kinds"). Its protocol
// says what is launched, where that is not kernel by kernel: "compiled" or "graph". Of several, kernel by kernel
// counts, then "compiled". An operator that nobody timed so is issued in no time: its passes cost what they cost
// without this clock.
//
// Issuing hardly depends on how many samples there are: outside of the measured ones the nearest count stands for all.
// Where the tensor-parallel degree was not measured, the most ranks below it stand for it: they issue no less.

#include "native/costs/curve.hpp"

namespace trimtab::tuner {

// Milliseconds of the host. `error`: of both passes together, its standard error.
struct Launches {
  double forward = 0;
  double backward = 0;
  double update = 0;
  double error = 0;

  [[nodiscard]] double both() const { return forward + backward; }
  void add(const Launches& other, double times, double updates) {
    forward += times * other.forward;
    backward += times * other.backward;
    update += updates * other.update;
    error += times * other.error;  // one host is slower for all
  }
};

// One for each pass and update, of the way that counts: which source does is decided as for plain costs.
[[nodiscard]] std::vector<ChosenCost> choose_launches(const std::vector<Cost>& costs);

class LaunchCosts {
 public:
  LaunchCosts() = default;
  LaunchCosts(const Model& model, const std::vector<Cost>& costs);

  [[nodiscard]] bool empty() const { return operators_.empty(); }
  // Of one microbatch on one rank; all 0 where nobody timed the operator.
  [[nodiscard]] Launches at(const std::string& cost_key, std::int32_t samples, std::int32_t tp, bool alternate) const;

 private:
  std::map<std::string, MeasuredOperator> operators_;  // that were timed
};

}  // namespace trimtab::tuner

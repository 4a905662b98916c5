#pragma once

// What the host takes to issue the passes of operators and their updates: the second clock of a stage. A device that is
// told what to do more slowly than it does it waits for its host. Immutable once built; any thread.
//
// Such a cost is one of the pass with algorithm "launch" in its key (docs/protocols.md, "Cost kinds"). Its protocol
// says what is launched, where that is not kernel by kernel: "compiled" or "graph". Of several, the way counts that the
// model says its program takes, then kernel by kernel, then "compiled". An operator that nobody timed so is issued in
// no time: its passes cost what they cost without this clock.
//
// Issuing hardly depends on how many samples there are: outside of the measured ones the nearest count stands for all.
// Where the tensor-parallel degree was not measured, the most ranks below it stand for it: they issue no less.
//
// To issue a send, a receive or a collective is what nobody measures. Each is a call and a kernel at least, and no pass
// or update that is known is less than that: half of the shortest one stands for it (`message`).

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

// The `protocol` of costs of launches of this way.
[[nodiscard]] std::string_view protocol_of(LaunchedAs way);
// One for each pass and update, of the way that counts: which source does is decided as for plain costs.
[[nodiscard]] std::vector<ChosenCost> choose_launches(const std::vector<Cost>& costs,
                                                      LaunchedAs own = LaunchedAs::kKernels);

class LaunchCosts {
 public:
  LaunchCosts() = default;
  LaunchCosts(const Model& model, const std::vector<Cost>& costs);

  [[nodiscard]] bool empty() const { return operators_.empty(); }
  // Of one microbatch on one rank; all 0 where nobody timed the operator. `sums` of tensor-parallel ranks in each pass
  // come on top where one rank alone was measured.
  [[nodiscard]] Launches at(const std::string& cost_key, std::int32_t samples, std::int32_t tp, bool alternate,
                            std::int32_t sums = 0) const;
  // Of so many messages and collectives in each forward and backward pass of a microbatch, and once a step; all 0 where
  // no launch is known.
  [[nodiscard]] Launches messages(int forward, int backward, int once) const;

 private:
  void estimate_message();

  std::map<std::string, MeasuredOperator> operators_;  // that were timed
  Value message_{0, 0, Quality::kEstimated};
};

}  // namespace trimtab::tuner

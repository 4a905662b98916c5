#pragma once

// What a simulated job's decisions were worth, judged by the hidden truth.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "simulation/ground_truth.hpp"
#include "simulation/simulated_cluster.hpp"
#include "simulation/true_best.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {

// A trial that is over, and the truth at its end.
struct JudgedTrial {
  std::int32_t id = 0;
  std::string state;
  std::string reason;
  double true_ms = 0;
  double incumbent_true_ms = 0;
  double predicted_low_ms = 0;
  double predicted_ms = 0;
  double predicted_high_ms = 0;
  double ratio = 0;
  double ratio_low = 0;
  double ratio_high = 0;
  std::int32_t steps = 0;
  bool measured = false;
  double best_so_far_ms = 0;  // true time of the incumbent afterwards
  double elapsed_ms = 0;      // of the job, when it was over
  double overhead_ms = 0;     // of that, what trials have cost by then
  [[nodiscard]] bool adopted() const { return state == "adopted"; }
  [[nodiscard]] bool truly_worse() const { return true_ms >= incumbent_true_ms; }
};

class Verdict {
 public:
  explicit Verdict(GroundTruth& truth) : truth_(truth) {}

  // After each event that the machine has handled.
  void watch(const TuningState& state, const TimeSpent& spent);
  // The search's first answer: what the model alone would have run.
  void first_answer(const SearchReply& reply);

  [[nodiscard]] std::string json(const SimulationInput& input, const TuningState& state, const TimeSpent& spent,
                                 const TrueBest& known) const;

 private:
  [[nodiscard]] nlohmann::json changes_json(const TuningState& state, double best_ms) const;
  [[nodiscard]] double true_ms(const std::string& plan_json) const;
  void judge(const Trial& trial, const TuningState& state, const TimeSpent& spent);

  GroundTruth& truth_;
  std::vector<JudgedTrial> trials_;
  std::int32_t begun_ = 0;  // id of the last trial whose incumbent was noted
  std::string beside_;      // the incumbent that it is compared with
  bool first_answered_ = false;
  std::optional<TruePrice> model_alone_;
};

}  // namespace trimtab::coordinator

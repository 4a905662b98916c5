#include "tuner/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "native/calibration/left_out.hpp"
#include "native/calibration/memory_factor.hpp"
#include "native/calibration/operator_factors.hpp"
#include "native/calibration/term_rows.hpp"
#include "native/calibration/time_choice.hpp"
#include "native/calibration/time_parameters.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kMemoryStep = 0.02;  // of the factor: for slopes

bool is_measured(const Observation& seen) {
  return std::isfinite(seen.measured_ms) && seen.measured_ms > 0;
}

// A prediction that lacks costs says nothing of the factors: what is missing counts as no time at all.
bool teaches(const Observation& seen, const Prediction& prediction) {
  return is_measured(seen) && prediction.iteration_ms > 0 && prediction.missing_costs.empty();
}

// A prediction's shares are its slopes by the logarithms of the factors that it was made with, `at`.
std::vector<TimeRow> step_rows(const std::vector<Observation>& observations, const std::vector<Prediction>& predictions,
                               const Calibration& at) {
  std::vector<TimeRow> rows;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& seen = observations[i];
    const double noise = std::max(0.0, seen.measured_sigma_ms);
    rows.push_back(step_row(at, predictions[i].iteration_ms, time_slopes(predictions[i]), {seen.measured_ms, noise}));
    rows.back().observation = i;
  }
  return rows;
}

LeftOutErrors errors_of(const std::vector<Observation>& observations, const std::vector<Prediction>& predictions) {
  LeftOutErrors errors;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    errors.push_back(std::abs(predictions[i].iteration_ms / observations[i].measured_ms - 1));
  }
  return errors;
}

// As predictions were made once and for all.
class PredictedSteps final : public MeasuredSteps {
 public:
  explicit PredictedSteps(const std::vector<Observation>& observations) : observations_(observations) {
    std::vector<Prediction> predictions;
    for (const Observation& seen : observations) predictions.push_back(seen.prediction);
    rows_ = step_rows(observations, predictions, base_);
  }

  [[nodiscard]] std::size_t observations() const override { return observations_.size(); }
  [[nodiscard]] const Calibration& base() const override { return base_; }
  [[nodiscard]] const Calibration& base_without(std::size_t /*observation*/) const override { return base_; }
  [[nodiscard]] bool one_base() const override { return true; }
  std::vector<TimeRow> rows(const TimeSlopes& /*at*/) override { return rows_; }
  std::vector<TimeRow> rows_without(std::size_t /*observation*/, const TimeSlopes& /*at*/) override { return rows_; }
  [[nodiscard]] double predict_without(std::size_t observation, const TimeSlopes& at) const override {
    return rows_[observation].model(factors(at));
  }
  [[nodiscard]] double measured_ms(std::size_t observation) const override {
    return observations_[observation].measured_ms;
  }

 private:
  const std::vector<Observation>& observations_;
  Calibration base_;
  std::vector<TimeRow> rows_;
};

// With shares taken anew where factors move: what overlaps or waits depends on them.
class PricedSteps final : public MeasuredSteps {
 public:
  PricedSteps(const CostTable& table, const std::vector<Observation>& observations, OperatorFactors base)
      : observations_(observations), base_(std::move(base)), model_(table, base_.learnt) {
    for (const Calibration& without : base_.without) models_.emplace_back(table, without);
  }

  [[nodiscard]] std::size_t observations() const override { return observations_.size(); }
  [[nodiscard]] const Calibration& base() const override { return base_.learnt; }
  [[nodiscard]] const Calibration& base_without(std::size_t observation) const override {
    return one_base() ? base_.learnt : base_.without[observation];
  }
  [[nodiscard]] bool one_base() const override { return models_.empty(); }
  std::vector<TimeRow> rows(const TimeSlopes& at) override {
    const NativeCostModel model = under(model_, at);
    const std::vector<Prediction> predictions = predict_all(model);
    std::vector<TimeRow> rows = step_rows(observations_, predictions, model.calibration());
    waits_.clear();
    add_term_rows(model, observations_, predictions, waits_);
    rows.insert(rows.end(), waits_.begin(), waits_.end());
    return rows;
  }
  std::vector<TimeRow> rows_without(std::size_t observation, const TimeSlopes& at) override {
    const NativeCostModel model = under(models_[observation], at);
    std::vector<TimeRow> rows = step_rows(observations_, predict_all(model), model.calibration());
    rows.insert(rows.end(), waits_.begin(), waits_.end());
    return rows;
  }
  [[nodiscard]] double predict_without(std::size_t observation, const TimeSlopes& at) const override {
    const NativeCostModel& model = one_base() ? model_ : models_[observation];
    return under(model, at).evaluate(observations_[observation].plan).iteration_ms;
  }
  [[nodiscard]] double measured_ms(std::size_t observation) const override {
    return observations_[observation].measured_ms;
  }

 private:
  static NativeCostModel under(const NativeCostModel& model, const TimeSlopes& at) {
    Calibration calibration = model.calibration();
    set_parameters(at, calibration);
    return model.under(calibration);
  }
  [[nodiscard]] std::vector<Prediction> predict_all(const NativeCostModel& model) const {
    std::vector<Prediction> predictions;
    for (const Observation& seen : observations_) predictions.push_back(model.evaluate(seen.plan));
    return predictions;
  }

  const std::vector<Observation>& observations_;
  OperatorFactors base_;
  NativeCostModel model_;
  std::vector<NativeCostModel> models_;  // by observation that is left out; empty where they are the same
  std::vector<TimeRow> waits_;           // of the latest rows
};

// Factors of 1, no surer than an earlier job's were.
Calibration costs_alone(const Calibration& earlier) {
  Calibration alone;
  const auto less_sure = [](const Factor& than, Factor& factor) {
    factor.log_sigma = std::max(factor.log_sigma, than.log_sigma);
  };
  less_sure(earlier.computation, alone.computation);
  less_sure(earlier.communication, alone.communication);
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) less_sure(earlier.classes[k], alone.classes[k]);
  less_sure(earlier.overlap, alone.overlap);
  less_sure(earlier.bubble, alone.bubble);
  return alone;
}

void finish(const TimeChoice& choice, const LeftOutErrors& of_costs, Calibration& calibration) {
  const Calibration before = std::exchange(calibration, choice.calibration);
  calibration.memory = before.memory;
  calibration.memory_sigma = before.memory_sigma;
  calibration.observations = static_cast<int>(of_costs.size());
  calibration.left_out_error = mean(choice.errors);
  calibration.left_out_error_of_costs = mean(of_costs);
}

std::vector<MemoryRow> memory_rows(const std::vector<Observation>& observations) {
  std::vector<MemoryRow> rows;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& seen = observations[i];
    if (!seen.prediction.missing_costs.empty()) continue;
    const std::size_t stages = std::min(seen.measured_memory_bytes.size(), seen.prediction.stages.size());
    for (std::size_t s = 0; s < stages; ++s) {
      const StagePrediction& stage = seen.prediction.stages[s];
      const StageMemory& memory = stage.memory;
      const auto scales = static_cast<double>(memory.activations + memory.recompute_peak + memory.working);
      const double constant = static_cast<double>(stage.memory_bytes) - scales;
      if (seen.measured_memory_bytes[s] > 0 && scales > 0) {
        rows.push_back({scales, constant, seen.measured_memory_bytes[s], i});
      }
    }
  }
  return rows;
}

// What of a peak scales with the factor depends on what is recomputed, and a little on the factor: where it is the
// larger of two that counts.
std::vector<MemoryRow> memory_rows_at(const CostTable& table, const std::vector<Observation>& observations,
                                      double factor) {
  Calibration at;
  at.memory.value = factor;
  Calibration more = at;
  more.memory.value *= 1 + kMemoryStep;
  const NativeCostModel now(table, at);
  const NativeCostModel then(table, more);
  std::vector<MemoryRow> rows;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& seen = observations[i];
    if (seen.measured_memory_bytes.empty() || !seen.prediction.missing_costs.empty()) continue;
    const Prediction here = now.evaluate(seen.plan);
    const Prediction there = then.evaluate(seen.plan);
    for (std::size_t s = 0; s < std::min(seen.measured_memory_bytes.size(), here.stages.size()); ++s) {
      const auto bytes = static_cast<double>(here.stages[s].memory_bytes);
      const double scales = (static_cast<double>(there.stages[s].memory_bytes) - bytes) / (kMemoryStep * factor);
      const double measured = seen.measured_memory_bytes[s];
      if (measured > 0 && scales > 0) rows.push_back({scales, bytes - scales * factor, measured, i});
    }
  }
  return rows;
}

// What passes have taught is held to steps: of one plan by far, for passes and step may be wrong together.
bool foretell_better(const std::vector<Observation>& observations, const TimeChoice& without, const TimeChoice& with) {
  if (observations.size() > 1) return mean(with.errors) <= mean(without.errors);
  const Observation& seen = observations.front();
  const double noise = std::hypot(seen.measured_sigma_ms / seen.measured_ms, with.calibration.residual_sigma);
  return falls_by_far(without.errors.front(), with.errors.front(), noise);
}

// Of an earlier job, or from the costs alone: whichever foretells better; then with operators' factors, where those do.
TimeChoice learn_time(const CostTable& table, const std::vector<Observation>& observations,
                      const Calibration& earlier) {
  const auto learn_from = [&](OperatorFactors base) {
    PricedSteps steps(table, observations, std::move(base));
    return choose_factors(steps);
  };
  Calibration base = costs_alone(earlier);
  TimeChoice best = learn_from({base, {}});
  if (parameters(earlier) != parameters(base) || !earlier.operators.empty()) {
    TimeChoice of_earlier = learn_from({earlier, {}});
    if (mean(of_earlier.errors) <= mean(best.errors)) {
      best = std::move(of_earlier);
      base = earlier;
    }
  }
  OperatorFactors operators = learn_operators(table, observations, base);
  if (operators.without.empty()) return best;
  TimeChoice of_operators = learn_from(std::move(operators));
  return foretell_better(observations, best, of_operators) ? of_operators : best;
}

}  // namespace

Calibration calibrate(const std::vector<Observation>& observations) {
  Calibration calibration;
  std::vector<Observation> used;
  std::vector<Prediction> predictions;
  for (const Observation& seen : observations) {
    if (!teaches(seen, seen.prediction)) continue;
    used.push_back(seen);
    predictions.push_back(seen.prediction);
  }
  if (!used.empty()) {
    PredictedSteps steps(used);
    const LeftOutErrors of_costs = errors_of(used, predictions);
    TimeChoice choice = choose_factors(steps);
    if (mean(choice.errors) > mean(of_costs)) choice = stand_still(steps);
    finish(choice, of_costs, calibration);
  }
  learn_memory([&](double) { return memory_rows(observations); }, Calibration{}, calibration);
  return calibration;
}

Calibration calibrate(const CostTable& table, const std::vector<Observation>& observations,
                      const Calibration& learnt_before) {
  const Calibration earlier = beside_corrections_of(table, learnt_before);
  Calibration calibration = earlier;
  calibration.observations = 0;
  if (observations.empty()) return calibration;
  const NativeCostModel costs(table);
  std::vector<Observation> used;
  std::vector<Prediction> predictions;
  for (const Observation& seen : observations) {
    if (!is_measured(seen)) continue;
    Prediction prediction = costs.evaluate(seen.plan);
    if (!teaches(seen, prediction)) continue;
    used.push_back(seen);
    predictions.push_back(std::move(prediction));
  }
  if (!used.empty()) {
    const LeftOutErrors of_costs = errors_of(used, predictions);
    TimeChoice choice = learn_time(table, used, earlier);
    if (mean(choice.errors) > mean(of_costs)) {
      PricedSteps steps(table, used, {costs_alone(earlier), {}});
      choice = stand_still(steps);
    }
    finish(choice, of_costs, calibration);
  }
  const bool tells_memory = std::ranges::any_of(observations, [](const Observation& seen) {
    return !seen.measured_memory_bytes.empty() && seen.prediction.missing_costs.empty();
  });
  if (tells_memory) {
    learn_memory([&](double factor) { return memory_rows_at(table, observations, factor); }, earlier, calibration);
  }
  return calibration;
}

}  // namespace trimtab::tuner

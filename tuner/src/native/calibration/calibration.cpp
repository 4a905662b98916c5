#include <algorithm>
#include <functional>
#include <set>

#include "native/calibration/operator_factors.hpp"
#include "native/calibration/time_choice.hpp"

#include "base/numbers.hpp"

namespace trimtab::tuner {
namespace {

// Of one stage's peak, in bytes.
struct MemoryRow {
  double scales = 0;
  double constant = 0;
  double measured = 0;
  std::size_t observation = 0;
};

// Rows as they are under a factor: what scales may depend on it a little.
using MemoryRows = std::function<std::vector<MemoryRow>(double factor)>;

constexpr double kResidualPriorWeight = 4;  // peaks that the prior of the residual counts for
constexpr int kRounds = 30;
constexpr int kLinearizations = 4;
constexpr double kLongestStep = 0.5;

double predicted(const MemoryRow& row, double factor) {
  return row.constant + row.scales * factor;
}

// Of what the factor leaves of the peaks; what the factor may be off by, where it is not learnt, explains a part.
double residual_of(const std::vector<MemoryRow>& rows, const Factor& factor, bool learnt, double prior) {
  double sum = kResidualPriorWeight * prior * prior;
  for (const MemoryRow& row : rows) {
    const double left = (row.measured - predicted(row, factor.value)) / row.measured;
    const double may_be = learnt ? 0 : row.scales * factor.value * factor.log_sigma / row.measured;
    sum += std::max(0.0, left * left - may_be * may_be);
  }
  const double decided = learnt ? 1 : 0;
  return std::sqrt(sum / (kResidualPriorWeight + std::max(0.0, static_cast<double>(rows.size()) - decided)));
}

Factor fit(const std::vector<MemoryRow>& rows, const Factor& prior, double residual,
           std::optional<std::size_t> left_out = {}) {
  const double prior_precision = 1 / (prior.log_sigma * prior.log_sigma);
  const double center = std::log(prior.value);
  double log_factor = center;
  double information = prior_precision;
  for (int round = 0; round < kRounds; ++round) {
    information = prior_precision;
    double gradient = -prior_precision * (log_factor - center);
    for (const MemoryRow& row : rows) {
      if (left_out == row.observation) continue;
      const double slope = row.scales * std::exp(log_factor);
      const double sigma = residual * row.measured;
      gradient += slope * (row.measured - row.constant - slope) / (sigma * sigma);
      information += slope * slope / (sigma * sigma);
    }
    const double step = gradient / information;
    log_factor += std::clamp(step, -kLongestStep, kLongestStep);
  }
  return {std::exp(log_factor), 1 / std::sqrt(information)};
}

LeftOutErrors errors(const std::vector<MemoryRow>& rows, const std::function<double(std::size_t)>& factor_without) {
  LeftOutErrors all;
  std::set<std::size_t> seen;
  for (const MemoryRow& of : rows) {
    if (!seen.insert(of.observation).second) continue;
    const double factor = factor_without(of.observation);
    double sum = 0;
    double stages = 0;
    for (const MemoryRow& row : rows) {
      if (row.observation != of.observation) continue;
      sum += std::abs(predicted(row, factor) / row.measured - 1);
      ++stages;
    }
    all.push_back(sum / stages);
  }
  return all;
}

LeftOutErrors errors_at(const std::vector<MemoryRow>& rows, double factor) {
  return errors(rows, [factor](std::size_t) { return factor; });
}

// Stages stand for plans where there is one plan.
void tell_apart(std::vector<MemoryRow>& rows) {
  const bool one =
      std::ranges::all_of(rows, [&](const MemoryRow& row) { return row.observation == rows[0].observation; });
  for (std::size_t i = 0; i < rows.size() && one; ++i) rows[i].observation = i;
}

// One factor on what of stages' peaks scales, beside what does not, where peaks that were left out are foretold better
// with it. Left out is a measured plan; where one alone tells of its peaks, one of its stages: what they hold is not
// the same. Writes memory and memory_sigma; what `earlier` has is kept where that foretells peaks no worse than costs
// alone.
void learn_memory(const MemoryRows& rows_at, const Calibration& earlier, Calibration& calibration) {
  calibration.memory = earlier.memory;
  calibration.memory_sigma = earlier.memory_sigma;
  std::vector<MemoryRow> rows = rows_at(earlier.memory.value);
  if (rows.empty()) return;
  Factor prior = earlier.memory;
  if (mean(errors_at(rows, prior.value)) > mean(errors_at(rows_at(1), 1))) {
    prior = {1, std::max(prior.log_sigma, Calibration{}.memory.log_sigma)};
    rows = rows_at(1);
  }
  Factor learnt = prior;
  double residual = earlier.memory_sigma;
  for (int i = 0; i < kLinearizations; ++i) {
    rows = rows_at(learnt.value);
    learnt = fit(rows, prior, residual);
    residual = residual_of(rows, learnt, true, earlier.memory_sigma);
  }
  tell_apart(rows);
  const LeftOutErrors after =
      errors(rows, [&](std::size_t observation) { return fit(rows, prior, residual, observation).value; });
  std::vector<MemoryRow> at_prior = rows_at(prior.value);
  tell_apart(at_prior);
  const bool foretells = falls(errors_at(at_prior, prior.value), after, earlier.memory_sigma);
  calibration.memory = foretells ? learnt : prior;
  calibration.memory_sigma = foretells ? residual : residual_of(at_prior, prior, false, earlier.memory_sigma);
}

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
  less_sure(earlier.launching, alone.launching);
  return alone;
}

void finish(const TimeChoice& choice, const LeftOutErrors& of_costs, Calibration& calibration) {
  const Calibration before = std::exchange(calibration, choice.calibration);
  calibration.memory = before.memory;
  calibration.memory_sigma = before.memory_sigma;
  calibration.observations = static_cast<int>(of_costs.size());
  calibration.left_out_error = std::min(mean(choice.errors), mean(of_costs));  // but for rounding never above
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

// What passes have taught is held to steps. Of one plan, if no other holds it: by far, for passes and step may be wrong
// together.
bool foretell_better(const std::vector<Observation>& observations, bool held, const TimeChoice& without,
                     const TimeChoice& with) {
  if (held || observations.size() > 1) return mean(with.errors) <= mean(without.errors);
  const Observation& seen = observations.front();
  const double noise = root_of_squares(seen.measured_sigma_ms / seen.measured_ms, with.calibration.residual_sigma);
  return falls_by_far(without.errors.front(), with.errors.front(), noise);
}

// Of an earlier job, or from the costs alone: whichever foretells better; then with operators' factors, where those do.
// `held`: other steps will be predicted by it before it is believed.
TimeChoice learn_time(const CostTable& table, const std::vector<Observation>& observations, const Calibration& earlier,
                      bool held) {
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
  return foretell_better(observations, held, best, of_operators) ? of_operators : best;
}

// How factors are learnt from steps, and what a step takes under them.
struct Learning {
  std::function<TimeChoice(const std::vector<Observation>&, bool held)> learn;
  std::function<double(const Calibration&, const Observation&)> predict;
};

// Of each step, predicted by what all other plans teach: the choice of factors is repeated without its plan.
LeftOutErrors repeated_errors(const Learning& learning, const std::vector<Observation>& observations) {
  LeftOutErrors errors;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    std::vector<Observation> others = observations;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const double predicted = learning.predict(learning.learn(others, true).calibration, observations[i]);
    errors.push_back(std::abs(predicted / observations[i].measured_ms - 1));
  }
  return errors;
}

bool same_factors(const Calibration& a, const Calibration& b) {
  const auto same = [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.value == other.second.value;
  };
  return parameters(a) == parameters(b) && std::ranges::equal(a.operators, b.operators, same);
}

// What was learnt where it predicts better, of several plans with its choice repeated without each; else what stands.
TimeChoice held_to_others(const Learning& learning, const std::vector<Observation>& observations, TimeChoice standing) {
  TimeChoice learnt = learning.learn(observations, false);
  if (same_factors(learnt.calibration, standing.calibration)) return standing;
  if (observations.size() > 1) learnt.errors = repeated_errors(learning, observations);
  return mean(learnt.errors) < mean(standing.errors) ? learnt : standing;
}

// Without anything that these steps teach: as an earlier job's factors have it, or the costs alone.
TimeChoice standing(const CostTable& table, const std::vector<Observation>& observations, const Calibration& earlier) {
  const auto stand = [&](const Calibration& at) {
    PricedSteps steps(table, observations, {at, {}});
    return stand_still(steps);
  };
  TimeChoice alone = stand(costs_alone(earlier));
  TimeChoice before = stand(earlier);
  return mean(before.errors) <= mean(alone.errors) ? before : alone;
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
    const auto learn = [](const std::vector<Observation>& from, bool /*held*/) {
      PredictedSteps of_these(from);
      return choose_factors(of_these);
    };
    const auto predict = [](const Calibration& learnt, const Observation& seen) {
      const std::vector<Observation> one{seen};
      return PredictedSteps(one).predict_without(0, parameters(learnt));
    };
    finish(held_to_others({learn, predict}, used, stand_still(steps)), errors_of(used, predictions), calibration);
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
    const auto learn = [&](const std::vector<Observation>& from, bool held) {
      return learn_time(table, from, earlier, held);
    };
    const auto predict = [&](const Calibration& learnt, const Observation& seen) {
      return NativeCostModel(table, learnt).evaluate(seen.plan).iteration_ms;
    };
    finish(held_to_others({learn, predict}, used, standing(table, used, earlier)), errors_of(used, predictions),
           calibration);
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

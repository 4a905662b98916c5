#include "native/calibration/term_rows.hpp"

#include <algorithm>

#include "native/calibration/operator_factors.hpp"
#include "plan/plan_rules.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kSlopeStep = 1e-4;      // of a factor
constexpr double kWaitNoise = 0.01;      // of the step: what a wait may differ by whatever the factors are
constexpr double kTransferNoise = 0.02;  // the same of transfers, where every other stage's differences meet
// What a rank tells is of a few steps of its own: over the step that was measured, and its passes over those told.
constexpr double kLeastOfStep = 0.7;
constexpr double kMostOfStep = 1.4;
constexpr double kLeastOfPasses = 0.9;

struct Wait {
  double StepTerms::*ms;
  double noise;
};
constexpr std::array<Wait, kCommunicationClasses> kWaits{{{&StepTerms::collectives_ms, kWaitNoise},
                                                          {&StepTerms::gradients_ms, kWaitNoise},
                                                          {&StepTerms::transfers_ms, kTransferNoise}}};

// At factors of 1.
TimeRow row_at(const Calibration& at, double ms, const TimeSlopes& slopes, const Measurement& measured) {
  TimeRow row;
  row.computation = slopes[kComputing] / at.computation.value;
  row.overlap = slopes[kOverlapping] / at.overlap.value;
  row.bubble = slopes[kBubble] / at.bubble.value;
  row.launching = slopes[kLaunching] / at.launching.value;
  row.constant =
      ms - slopes[kComputing] - slopes[kCommunication] - slopes[kOverlapping] - slopes[kBubble] - slopes[kLaunching];
  row.unclassed = slopes[kCommunication];
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) {
    row.of_class[k] = slopes[place(k)] / (at.communication.value * at.classes[k].value);
    row.unclassed -= slopes[place(k)];
  }
  row.unclassed /= at.communication.value;
  row.measured = measured.ms;
  row.noise = measured.noise;
  return row;
}

// One plan's stages, under the factors and, one by one, under each a little larger.
class StageWaits {
 public:
  StageWaits(const NativeCostModel& model, const Plan& plan, const Prediction& now) : now_(now) {
    const auto under = [&](Factor& factor, const Calibration& calibration) {
      factor.value *= 1 + kSlopeStep;
      return model.under(calibration).evaluate(plan);
    };
    Calibration slower = model.calibration();
    computing_ = under(slower.computation, slower);
    for (std::size_t k = 0; k < kCommunicationClasses; ++k) {
      slower = model.calibration();
      moving_[k] = under(slower.classes[k], slower);
    }
    slower = model.calibration();
    overlapping_ = now.overlap_share_ms > 0 ? under(slower.overlap, slower) : now;
    slower = model.calibration();
    idling_ = now.bubble_share_ms > 0 ? under(slower.bubble, slower) : now;
    slower = model.calibration();
    launching_ = now.launch_share_ms > 0 ? under(slower.launching, slower) : now;
  }

  [[nodiscard]] TimeSlopes slopes(std::size_t stage, double StepTerms::*of) const {
    const auto slope = [&](const Prediction& slower) {
      return (slower.stages[stage].terms.*of - now_.stages[stage].terms.*of) / kSlopeStep;
    };
    TimeSlopes result{};
    result[kComputing] = slope(computing_);
    for (std::size_t k = 0; k < kCommunicationClasses; ++k) {
      result[place(k)] = slope(moving_[k]);
      result[kCommunication] += result[place(k)];
    }
    result[kOverlapping] = slope(overlapping_);
    result[kBubble] = slope(idling_);
    result[kLaunching] = slope(launching_);
    return result;
  }

 private:
  const Prediction& now_;
  Prediction computing_;
  std::array<Prediction, kCommunicationClasses> moving_;
  Prediction overlapping_;
  Prediction idling_;
  Prediction launching_;
};

// Whether what was told of the stage can be of the step that was measured.
bool is_told(const Observation& seen, std::size_t stage) {
  const StepTerms& terms = seen.measured_terms[stage];
  const double of_step = terms.total_ms() / seen.measured_ms;
  if (!(of_step >= kLeastOfStep && of_step <= kMostOfStep)) return false;
  if (stage >= seen.measured_pass_ms.size() || !(seen.measured_pass_ms[stage] > 0)) return true;
  return terms.computation_ms >= kLeastOfPasses * seen.measured_pass_ms[stage];
}

std::vector<std::size_t> told_stages(const Observation& seen, const Prediction& prediction) {
  std::vector<std::size_t> told;
  if (!(seen.measured_ms > 0) || !std::isfinite(seen.measured_ms)) return told;
  if (!prediction.missing_costs.empty() || !is_simple_sum(seen.plan)) return told;
  if (target_says(seen.plan, kTransfersMeet, "true")) return told;  // ranks cannot tell the wire from the partner
  for (std::size_t s = 0; s < std::min(seen.measured_terms.size(), prediction.stages.size()); ++s) {
    if (is_told(seen, s)) told.push_back(s);
  }
  return told;
}

// Such a stage gathers or scatters beside every pass: what that takes from computing, and how much of it waits behind a
// transfer, ranks do not tell.
bool shards_passes(const Stage& stage) {
  return std::ranges::any_of(stage.segments, [](const Segment& one) {
    return one.sharded == ShardedLevel::kGradients || one.sharded == ShardedLevel::kParameters;
  });
}

// All stages' waits of one class are one measurement of it: of one step, with one plan's peculiarities. A job that
// does not mark what it waits for tells 0, which is no measurement.
void add_rows_of(const NativeCostModel& model, const Observation& seen, const Prediction& now, std::size_t observation,
                 const std::vector<std::size_t>& told, std::vector<TimeRow>& rows) {
  const StageWaits waits(model, seen.plan, now);
  const double noise_ms = seen.measured_ms * std::sqrt(static_cast<double>(told.size()));
  for (const std::size_t s : told) {
    const StepTerms measured = seen.measured_terms[s] * (seen.measured_ms / seen.measured_terms[s].total_ms());
    for (const Wait& wait : kWaits) {
      const bool unsure = wait.ms == &StepTerms::gradients_ms && shards_passes(seen.plan.stages[s]);
      if (unsure || !(measured.*wait.ms > 0)) continue;
      const double predicted = now.stages[s].terms.*wait.ms;
      rows.push_back(
          row_at(model.calibration(), predicted, waits.slopes(s, wait.ms), {measured.*wait.ms, wait.noise * noise_ms}));
      rows.back().observation = observation;
    }
  }
}

}  // namespace

TimeSlopes parameters(const Calibration& calibration) {
  TimeSlopes all{std::log(calibration.computation.value), std::log(calibration.communication.value),
                 calibration.fixed_ms};
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) all[place(k)] = std::log(calibration.classes[k].value);
  all[kOverlapping] = std::log(calibration.overlap.value);
  all[kBubble] = std::log(calibration.bubble.value);
  all[kLaunching] = std::log(calibration.launching.value);
  return all;
}

void set_parameters(const TimeSlopes& at, Calibration& calibration) {
  calibration.computation.value = std::exp(at[kComputing]);
  calibration.communication.value = std::exp(at[kCommunication]);
  calibration.fixed_ms = at[kFixed];
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) calibration.classes[k].value = std::exp(at[place(k)]);
  calibration.overlap.value = std::exp(at[kOverlapping]);
  calibration.bubble.value = std::exp(at[kBubble]);
  calibration.launching.value = std::exp(at[kLaunching]);
}

TimeSlopes factors(const TimeSlopes& at) {
  TimeSlopes all{};
  for (std::size_t i = 0; i < kTimeParameters; ++i) all[i] = i == kFixed ? at[i] : std::exp(at[i]);
  return all;
}

double TimeRow::model(const TimeSlopes& at) const {
  double moving = unclassed;
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) moving += of_class[k] * at[place(k)];
  return computation * at[kComputing] + moving * at[kCommunication] + overlap * at[kOverlapping] +
         bubble * at[kBubble] + launching * at[kLaunching] + constant + (is_step ? at[kFixed] : 0);
}

TimeSlopes TimeRow::slope(const TimeSlopes& at) const {
  TimeSlopes slopes{};
  slopes[kComputing] = computation * at[kComputing];
  slopes[kCommunication] = unclassed * at[kCommunication];
  slopes[kFixed] = is_step ? 1 : 0;
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) {
    slopes[place(k)] = of_class[k] * at[kCommunication] * at[place(k)];
    slopes[kCommunication] += slopes[place(k)];
  }
  slopes[kOverlapping] = overlap * at[kOverlapping];
  slopes[kBubble] = bubble * at[kBubble];
  slopes[kLaunching] = launching * at[kLaunching];
  return slopes;
}

TimeRow step_row(const Calibration& at, double ms, const TimeSlopes& slopes, const Measurement& measured) {
  TimeRow row = row_at(at, ms - at.fixed_ms, slopes, measured);
  row.is_step = true;
  return row;
}

void add_term_rows(const NativeCostModel& model, const std::vector<Observation>& observations,
                   const std::vector<Prediction>& predictions, std::vector<TimeRow>& rows) {
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const std::vector<std::size_t> told = told_stages(observations[i], predictions[i]);
    if (!told.empty()) add_rows_of(model, observations[i], predictions[i], i, told, rows);
  }
}

}  // namespace trimtab::tuner

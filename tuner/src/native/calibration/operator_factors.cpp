#include "native/calibration/operator_factors.hpp"

#include <numeric>
#include <set>

#include "base/numbers.hpp"
#include "native/calibration/left_out.hpp"
#include "native/costs/tables.hpp"
#include "plan/recompute_flags.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kOperatorPrior = 0.1;  // of log u: benchmarks meet an operator alone, a step does not
constexpr double kDriftPrior = 0.01;    // of d
constexpr double kPriceNoise = 0.01;    // of a stage's passes: what no operator's factor explains
constexpr double kMostSigmas = 3;       // that a row may be off: one further off counts for less
constexpr int kPasses = 2;              // over the rows

using Doubles = std::vector<double>;

// What a stage spends in each operator, and what all of that took.
struct Row {
  std::map<std::size_t, double> priced_ms;  // by place in Filter::keys
  double measured_ms = 0;
  double sigma = 0;
  std::size_t observation = 0;
};

// Of the operators, by place, those that are given a factor.
using Given = std::vector<std::uint8_t>;

class Filter {
 public:
  Filter(const CostTable::Tables& tables, const Calibration& prior) : tables_(tables), prior_(prior) {}

  // A stage that lacks a cost, or whose launches take longer than its kernels, teaches nothing.
  void add(const Observation& seen, std::size_t stage) {
    const Plan& plan = seen.plan;
    if (shares_sequences(plan)) return;  // the table's costs are of whole sequences
    double launching = 0;
    double computing = 0;
    Row row{{}, seen.measured_pass_ms[stage], root_of_squares(seen.measured_pass_sigma, kPriceNoise), observations_};
    for (const Segment& segment : plan.stages[stage].segments) {
      const std::int32_t samples = plan.microbatch / std::max(segment.dp, 1);
      for (std::int32_t i = segment.operators.begin; i < segment.operators.end; ++i) {
        const std::int32_t group = tables_.group_of[i];
        const OperatorTable& table = tables_.at(samples, segment.tp, contains(segment.alternate_dimension, i));
        const OperatorCosts& costs = table.of_group[group];
        if (!costs.complete()) return;
        const double forwards = contains(segment.recompute, i) ? 2 : 1;
        const double ms = plan.microbatches() * (forwards * costs.forward.mean + costs.backward.mean);
        const Launches of = tables_.launches.at(tables_.group_names[group], samples, segment.tp, false);
        launching += plan.microbatches() * (forwards * of.forward + of.backward);
        computing += ms;
        if (ms > 0) row.priced_ms[place_of(tables_.group_names[group])] += ms;
      }
    }
    // What waited for its host says nothing of how fast devices compute.
    if (!row.priced_ms.empty() && launching <= computing) rows_.push_back(std::move(row));
  }

  void next_observation() { ++observations_; }
  [[nodiscard]] std::size_t observations() const { return observations_; }
  // Those that teach.
  [[nodiscard]] std::set<std::size_t> told() const {
    std::set<std::size_t> told;
    for (const Row& row : rows_) told.insert(row.observation);
    return told;
  }

  [[nodiscard]] std::size_t operators() const { return keys_.size(); }
  void run(const Given& given, std::optional<std::size_t> left_out = {}) {
    begin(given);
    linearized_ = at_;
    drifts_.assign(observations_, 0.0);
    for (int pass = 0; pass < kPasses; ++pass) {
      begin(given);
      Doubles drifts(observations_, 0.0);
      const Row* before = nullptr;
      for (const Row& row : rows_) {
        if (left_out == row.observation) continue;
        if (before != nullptr && before->observation != row.observation) next_drift();
        take(row);
        drifts[row.observation] = at_[drift()];
        before = &row;
      }
      linearized_ = at_;
      drifts_ = std::move(drifts);
    }
  }

  // After a run: what it has learnt; of operators the surest to have a factor first; how far the observation's passes
  // are off, relative.
  // The common factor is as sure as that of the operators as the measured plans mix them, which is what is known best.
  [[nodiscard]] Calibration learnt() const {
    const Doubles shares = mean_shares();
    double variance = kPriceNoise * kPriceNoise;
    for (std::size_t i = 0; i < at_.size(); ++i) {
      for (std::size_t j = 0; j < at_.size(); ++j) variance += shares[i] * covariance_[i][j] * shares[j];
    }
    Calibration learnt = prior_;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (given_[i] != 0) {
        learnt.operators[keys_[i]] = {std::exp(at_[i + 1]), std::sqrt(std::max(covariance_[i + 1][i + 1], 0.0))};
      } else {
        variance += std::pow(shares[i + 1] * prior_of(i).log_sigma, 2);
      }
    }
    learnt.computation = {std::exp(at_[0]), std::sqrt(std::max(variance, 0.0))};
    return learnt;
  }

  [[nodiscard]] std::vector<std::size_t> surest() const {
    std::vector<double> sigmas;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const double moved = std::abs(at_[i + 1] - std::log(prior_of(i).value));
      sigmas.push_back(moved / std::sqrt(std::max(covariance_[i + 1][i + 1], 1e-12)));
    }
    std::vector<std::size_t> order(keys_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return sigmas[a] > sigmas[b]; });
    return order;
  }

  [[nodiscard]] double error(std::size_t observation) const {
    double sum = 0;
    double stages = 0;
    for (const Row& row : rows_) {
      if (row.observation != observation) continue;
      sum += std::abs(priced(row, at_) / row.measured_ms - 1);
      ++stages;
    }
    return sum / stages;
  }

  // Where nothing is learnt.
  // At the prior.
  void begin(const Given& given) {
    given_ = given;
    const std::size_t n = 1 + keys_.size() + 1;
    at_.assign(n, 0.0);
    covariance_.assign(n, Doubles(n, 0.0));
    const auto set = [this](std::size_t i, const Factor& factor) {
      at_[i] = std::log(factor.value);
      covariance_[i][i] = factor.log_sigma * factor.log_sigma;
    };
    set(0, prior_.computation);
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      set(i + 1, prior_of(i));
      if (given_[i] == 0) covariance_[i + 1][i + 1] = 0;
    }
    set(drift(), {1.0, kDriftPrior});
  }

  // Of a stage's passes, relative.
  [[nodiscard]] double noise() const {
    double squares = 0;
    for (const Row& row : rows_) squares += row.sigma * row.sigma;
    return std::sqrt(squares / static_cast<double>(rows_.size()));
  }

 private:
  [[nodiscard]] std::size_t place_of(const std::string& key) {
    const auto [found, fresh] = places_.try_emplace(key, keys_.size());
    if (fresh) keys_.push_back(key);
    return found->second;
  }

  [[nodiscard]] Factor prior_of(std::size_t place) const {
    const auto known = prior_.operators.find(keys_[place]);
    return known == prior_.operators.end() ? Factor{1.0, kOperatorPrior} : known->second;
  }

  // An observation's rows follow each other, and its drift is its own.
  void next_drift() {
    at_[drift()] = 0;
    for (std::size_t i = 0; i < at_.size(); ++i) covariance_[drift()][i] = covariance_[i][drift()] = 0;
    covariance_[drift()][drift()] = kDriftPrior * kDriftPrior;
  }

  void take(const Row& row) {
    const double total = priced(row, linearized_);
    const std::size_t n = at_.size();
    Doubles slope(n, 0.0);
    slope[0] = slope[drift()] = 1;
    linearized_[drift()] = drifts_[row.observation];
    const double common = linearized_[0];
    for (const auto& [place, ms] : row.priced_ms) {
      slope[place + 1] = ms * std::exp(linearized_[place + 1] + common) / total;
    }
    Doubles gain(n, 0.0);
    double variance = row.sigma * row.sigma;
    double predicted = std::log(total) + linearized_[drift()];
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) gain[i] += covariance_[i][j] * slope[j];
      variance += slope[i] * gain[i];
      predicted += slope[i] * (at_[i] - linearized_[i]);
    }
    const double left = std::log(row.measured_ms) - predicted;
    variance = std::max(variance, left * left / (kMostSigmas * kMostSigmas));
    for (std::size_t i = 0; i < n; ++i) {
      at_[i] += gain[i] * left / variance;
      for (std::size_t j = 0; j < n; ++j) covariance_[i][j] -= gain[i] * gain[j] / variance;
    }
  }

  // Of each operator in the time of all rows.
  [[nodiscard]] Doubles mean_shares() const {
    Doubles shares(at_.size(), 0.0);
    for (const Row& row : rows_) {
      const double total = priced(row, at_) * static_cast<double>(rows_.size());
      const double common = at_[0];
      for (const auto& [place, ms] : row.priced_ms) shares[place + 1] += ms * std::exp(at_[place + 1] + common) / total;
    }
    shares[0] = 1;
    return shares;
  }

  [[nodiscard]] double priced(const Row& row, const Doubles& at) const {
    double sum = 0;
    for (const auto& [place, ms] : row.priced_ms) sum += ms * std::exp(at[place + 1]);
    return sum * std::exp(at[0]);
  }

  [[nodiscard]] std::size_t drift() const { return 1 + keys_.size(); }

  const CostTable::Tables& tables_;
  const Calibration& prior_;
  std::vector<std::string> keys_;  // of the parameters after the first, the common factor; then the latest drift
  std::size_t observations_ = 0;
  std::map<std::string, std::size_t> places_;
  std::vector<Row> rows_;
  Given given_;
  Doubles linearized_;  // where slopes are taken
  Doubles drifts_;      // by observation, where slopes are taken
  Doubles at_;
  std::vector<Doubles> covariance_;
};

LeftOutErrors left_out_errors(Filter& filter, const Given& given) {
  LeftOutErrors errors;
  for (const std::size_t i : filter.told()) {
    filter.run(given, i);
    errors.push_back(filter.error(i));
  }
  return errors;
}

// Of the operators, the surest to have a factor: so many, halved again and again, as foretell best.
Given choose_operators(Filter& filter, LeftOutErrors& errors) {
  const std::size_t all = filter.operators();
  filter.run(Given(all, 1));
  const std::vector<std::size_t> order = filter.surest();
  Given best(all, 0);
  errors = left_out_errors(filter, best);
  for (std::size_t count = all; count > 0; count /= 2) {
    Given given(all, 0);
    for (std::size_t i = 0; i < count; ++i) given[order[i]] = 1;
    LeftOutErrors with = left_out_errors(filter, given);
    if (mean(with) >= mean(errors)) continue;
    best = std::move(given);
    errors = std::move(with);
  }
  return best;
}

}  // namespace

bool is_simple_sum(const Plan& plan) {
  if (plan.schedule.sub_batches > 1 || plan.schedule.sliced_microbatches > 0) return false;
  std::set<std::int32_t> devices;
  for (const Stage& stage : plan.stages) {
    for (const std::int32_t device : stage.devices) {
      if (!devices.insert(device).second) return false;
    }
    for (const Segment& segment : stage.segments) {
      if (segment.switches != Switches{}) return false;
    }
  }
  return true;
}

OperatorFactors learn_operators(const CostTable& table, const std::vector<Observation>& observations,
                                const Calibration& prior) {
  Filter filter(table.tables(), prior);
  for (const Observation& seen : observations) {
    const std::size_t stages =
        is_simple_sum(seen.plan) ? std::min(seen.measured_pass_ms.size(), seen.plan.stages.size()) : 0;
    for (std::size_t s = 0; s < stages; ++s) {
      const double measured = seen.measured_pass_ms[s];
      if (std::isfinite(measured) && measured > 0) filter.add(seen, s);
    }
    filter.next_observation();
  }
  OperatorFactors factors{prior, {}};
  if (filter.told().empty()) return factors;
  if (observations.size() == 1) {
    filter.run(Given(filter.operators(), 0));
    factors.learnt = filter.learnt();
    factors.without = {factors.learnt};
    return factors;
  }
  if (filter.told().size() < 2) return factors;
  LeftOutErrors before;
  filter.begin(Given(filter.operators(), 0));
  for (const std::size_t i : filter.told()) before.push_back(filter.error(i));
  LeftOutErrors after;
  const Given given = choose_operators(filter, after);
  if (!falls(before, after, filter.noise())) return factors;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    filter.run(given, i);
    factors.without.push_back(filter.learnt());
  }
  filter.run(given);
  factors.learnt = filter.learnt();
  return factors;
}

}  // namespace trimtab::tuner

#pragma once

// A cost model that notes when a search prices a plan that is better than all before it, for benchmarks of how soon a
// search is near its answer. Prices are those of the model behind it. One search at a time.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pricing/evaluator.hpp"
#include "thread_seconds.hpp"

namespace trimtab::bench {

struct Improvement {
  double seconds = 0;  // of the thread, since the search began
  std::uint64_t evaluations = 0;
  double ms = 0;
};

class TimedEvaluator final : public tuner::Evaluator {
 public:
  TimedEvaluator(const tuner::CostModel& cost_model, const tuner::PlanSpace& space,
                 std::vector<Improvement>& improvements)
      : Evaluator(cost_model, space), inner_(cost_model.evaluator(space)), improvements_(improvements) {}

  tuner::Score price(const tuner::Candidate& candidate) override {
    count();
    const tuner::Score score = inner_->price(candidate);
    if (score.fits() && (improvements_.empty() || score.ms < improvements_.back().ms)) {
      improvements_.push_back({thread_seconds() - begin_, evaluations(), score.ms});
    }
    return score;
  }
  const tuner::StagePrice& stage(const tuner::Candidate& candidate, std::size_t stage) override {
    return inner_->stage(candidate, stage);
  }
  Plan plan(const tuner::Candidate& candidate) override { return inner_->plan(candidate); }
  std::string excess_text(const tuner::Candidate& candidate) override { return inner_->excess_text(candidate); }
  std::span<const double> computing_sums(std::int32_t microbatch, const tuner::Split& split) override {
    return inner_->computing_sums(microbatch, split);
  }
  tuner::StagePricers* stage_pricers() override { return inner_->stage_pricers(); }
  tuner::Bounds* bounds() override { return inner_->bounds(); }
  void stop_when(std::function<bool()> stop) override { inner_->stop_when(std::move(stop)); }

 private:
  std::unique_ptr<tuner::Evaluator> inner_;
  std::vector<Improvement>& improvements_;
  double begin_ = thread_seconds();
};

class TimedCostModel final : public tuner::CostModel {
 public:
  // Must not outlive the model.
  explicit TimedCostModel(const tuner::CostModel& inner) : inner_(inner) {}

  [[nodiscard]] std::string_view name() const override { return inner_.name(); }
  [[nodiscard]] Prediction evaluate(const Plan& plan) const override { return inner_.evaluate(plan); }
  [[nodiscard]] std::vector<tuner::TimelineEvent> timeline(const Plan& plan) const override {
    return inner_.timeline(plan);
  }
  [[nodiscard]] std::vector<std::string> unpriced(const Plan& plan) const override { return inner_.unpriced(plan); }
  [[nodiscard]] const Model& model() const override { return inner_.model(); }
  [[nodiscard]] const Cluster& cluster() const override { return inner_.cluster(); }
  [[nodiscard]] std::unique_ptr<tuner::Evaluator> evaluator(const tuner::PlanSpace& space) const override {
    improvements_.clear();
    return std::make_unique<TimedEvaluator>(inner_, space, improvements_);
  }

  // Of the latest search.
  [[nodiscard]] const std::vector<Improvement>& improvements() const { return improvements_; }

 private:
  const tuner::CostModel& inner_;
  mutable std::vector<Improvement> improvements_;
};

}  // namespace trimtab::bench

#include "stage_choice.hpp"

#include "exact_solver.hpp"

namespace trimtab::tuner::h3t {
namespace {

constexpr std::size_t kRemembered = 4096;  // stages; each some 20 kB for 48 layers

}  // namespace

StageSwitches::Remembered& StageSwitches::remembered(const Problem& problem) {
  key_.assign({problem.microbatches, problem.in_flight, problem.host_limit, static_cast<std::int64_t>(problem.fabric)});
  for (const LayerProfile& layer : problem.layers) {
    const std::int32_t number = table_.number_of(layer);
    const bool repeated = key_.size() > 4 && key_[key_.size() - 2] == number;
    if (repeated) {
      ++key_.back();
    } else {
      key_.insert(key_.end(), {number, 1});
    }
  }
  const auto found = stages_.find(key_);
  if (found != stages_.end()) return found->second;
  if (stages_.size() >= kRemembered) stages_.clear();
  return stages_.try_emplace(key_, problem, table_).first->second;
}

const StageChoice& StageSwitches::choose(const Problem& problem) {
  Remembered& of = remembered(problem);
  const auto found = of.answers.find(problem.device_limit);
  if (found != of.answers.end()) return found->second;
  if (of.answers.size() >= kRemembered) of.answers.clear();
  StageChoice choice = of.curve.at(problem.device_limit);
  if (choice.feasible && choice.gap() > gap_) choice = narrowed(problem, std::move(choice));
  return of.answers.emplace(problem.device_limit, std::move(choice)).first->second;
}

StageChoice StageSwitches::narrowed(const Problem& problem, StageChoice choice) const {
  ExactOptions options;
  options.gap = gap_;
  options.stop = stop_;
  ExactAnswer answer = solve_exactly(problem, options);
  choice.bound = std::max(choice.bound, answer.bound);
  if (answer.feasible && answer.best.outcome.runtime < choice.best.outcome.runtime) {
    choice.best = std::move(answer.best);
  }
  return choice;
}

}  // namespace trimtab::tuner::h3t

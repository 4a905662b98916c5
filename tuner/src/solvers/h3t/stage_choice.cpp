#include "solvers/h3t/stage_choice.hpp"

#include <utility>

#include "solvers/h3t/exact_solver.hpp"

namespace trimtab::tuner::h3t {
namespace {

constexpr std::size_t kStages = 1024;     // remembered; each some 20 kB for 48 layers and few corners
constexpr std::size_t kAnswers = 64;      // of each
constexpr std::size_t kLabels = 400'000;  // of an exact solver's pass

}  // namespace

StageSwitches::Remembered& StageSwitches::remembered(const Problem& problem) {
  key_.assign({problem.microbatches, problem.in_flight, problem.host_limit, static_cast<std::int64_t>(problem.fabric),
               code_of(problem.allowed)});
  const std::size_t head = key_.size();
  for (const LayerProfile& layer : problem.layers) {
    const std::int32_t number = table_.number_of(layer);
    const bool repeated = key_.size() > head && key_[key_.size() - 2] == number;
    if (repeated) {
      ++key_.back();
    } else {
      key_.insert(key_.end(), {number, 1});
    }
  }
  const auto found = stages_.find(key_);
  if (found != stages_.end()) return found->second;
  if (stages_.size() >= kStages) stages_.clear();
  return stages_.try_emplace(key_, problem, table_).first->second;
}

const StageChoice& StageSwitches::choose(const Problem& problem) {
  const std::uint64_t simulated = table_.simulated();
  Remembered& of = remembered(problem);
  evaluations_ += (table_.simulated() - simulated) * kSynchronizedCombinations;
  const auto found = of.answers.find(problem.device_limit);
  if (found != of.answers.end()) return found->second;
  if (of.answers.size() >= kAnswers) of.answers.clear();
  StageChoice choice = of.curve.at(problem.device_limit);
  evaluations_ += of.curve.paths() - std::exchange(of.counted, of.curve.paths());
  if (choice.feasible && choice.gap() > gap_) choice = narrowed(problem, std::move(choice));
  if (choice.feasible && choice.gap() > gap_ && stop_ && stop_()) return unfinished_ = std::move(choice);
  return of.answers.emplace(problem.device_limit, std::move(choice)).first->second;
}

StageChoice StageSwitches::narrowed(const Problem& problem, StageChoice choice) {
  ExactOptions options;
  options.gap = gap_;
  options.stop = stop_;
  options.most_labels = kLabels;
  ExactAnswer answer = solve_exactly(problem, options);
  evaluations_ += answer.paths + answer.labels / problem.layers.size();
  choice.bound = std::max(choice.bound, answer.bound);
  if (answer.feasible && answer.best.outcome.runtime < choice.best.outcome.runtime) {
    choice.best = std::move(answer.best);
  }
  return choice;
}

}  // namespace trimtab::tuner::h3t

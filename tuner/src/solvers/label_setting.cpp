#include "solvers/label_setting.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.hpp"

namespace trimtab::tuner::oases {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::int32_t kMostOptions = 16;
// Sums of the same costs in another order differ by rounding: a label is dropped only when it is worse by more.
constexpr double kRounding = 1e-12;

}  // namespace

// Without a limit a state is an option. With one it also says which options have been used.
void LabelSetting::make_states() {
  const std::int32_t options = problem_.options;
  const bool limited = problem_.most_options > 0;
  states_.clear();
  begin_states_.clear();
  index_.assign(static_cast<std::size_t>(options) << (limited ? options : 0), -1);
  const std::uint32_t sets = limited ? 1U << options : 1U;
  for (std::uint32_t used = limited ? 1 : 0; used < sets; ++used) {
    if (std::popcount(used) > problem_.most_options) continue;
    for (std::int32_t option = 0; option < options; ++option) {
      if (limited && ((used >> option) & 1U) == 0) continue;
      if (std::popcount(used) <= 1) begin_states_.push_back(count());
      index_[static_cast<std::size_t>(used) * options + option] = count();
      states_.push_back({option, used});
    }
  }
  connect_states();
}

void LabelSetting::connect_states() {
  const std::int32_t options = problem_.options;
  const bool limited = problem_.most_options > 0;
  next_.assign(states_.size(), {});
  before_.assign(states_.size(), {});
  for (std::int32_t from = 0; from < count(); ++from) {
    const State& state = states_[from];
    for (std::int32_t option = 0; option < options; ++option) {
      const bool stays = option == state.option;
      if (limited && !stays && ((state.used >> option) & 1U) != 0) continue;
      const std::uint32_t used = limited ? state.used | (1U << option) : 0;
      const std::int32_t to = index_[static_cast<std::size_t>(used) * options + option];
      if (to < 0) continue;
      next_[from].push_back(to);
      before_[to].push_back(from);
    }
  }
}

void LabelSetting::fill_to_go(double cost_weight, double price, std::vector<double>& to_go) {
  to_go.assign(static_cast<std::size_t>(problem_.nodes) * states_.size(), 0);
  for (std::int32_t s = 0; s < count(); ++s) {
    to_go[cell(problem_.nodes - 1, s)] = price * problem_.buffer[states_[s].option];
  }
  for (std::int32_t n = problem_.nodes - 2; n >= 0; --n) {
    for (std::int32_t s = 0; s < count(); ++s) {
      double least = kInfinite;
      for (const std::int32_t t : next_[s]) {
        const double way = cost_weight * (edge_cost(n, s, t) + node_cost(n + 1, t)) + price * node_memory(n + 1, t) +
                           to_go[cell(n + 1, t)];
        least = std::min(least, way);
      }
      to_go[cell(n, s)] = least;
    }
  }
}

// The way that `to_go` was filled with.
LabelSetting::Total LabelSetting::descend(const std::vector<double>& to_go, double cost_weight, double price,
                                          std::vector<std::int32_t>& choice) {
  choice.clear();
  Total total;
  std::int32_t at = -1;
  for (std::int32_t n = 0; n < problem_.nodes; ++n) {
    std::int32_t best = -1;
    double least = kInfinite;
    for (const std::int32_t t : n == 0 ? begin_states_ : next_[at]) {
      const double edge = n == 0 ? 0 : edge_cost(n - 1, at, t);
      const double way = cost_weight * (edge + node_cost(n, t)) + price * node_memory(n, t) + to_go[cell(n, t)];
      if (way < least) {
        least = way;
        best = t;
      }
    }
    total.cost += (n == 0 ? 0 : edge_cost(n - 1, at, best)) + node_cost(n, best);
    total.memory += node_memory(n, best);
    at = best;
    choice.push_back(states_[at].option);
  }
  total.memory += problem_.buffer[states_[at].option];
  return total;
}

// The dual value is found between a choice that is too large and one that fits: each price at which both would cost the
// same either finds a choice between them or is the optimal one.
bool LabelSetting::bound(ChainAnswer& answer) {
  const double limit = problem_.limit;
  const auto take = [&](const Total& total) {
    if (answer.found && total.cost >= answer.cost) return;
    answer.found = true;
    answer.cost = total.cost;
    answer.memory = total.memory;
    answer.choice = tried_;
  };
  price_ = 0;
  fill_to_go(1, 0, cost_to_go_);
  Total large = descend(cost_to_go_, 1, 0, tried_);
  answer.bound = large.cost;
  if (large.memory <= limit) {
    take(large);
    return true;
  }
  fill_to_go(0, 1, memory_to_go_);
  Total small = descend(memory_to_go_, 0, 1, tried_);
  if (small.memory > limit) {
    answer.choice = tried_;
    answer.cost = small.cost;
    answer.memory = small.memory;
    return false;
  }
  take(small);
  constexpr int kMostPrices = 60;
  priced_to_go_ = cost_to_go_;
  for (int i = 0; i < kMostPrices && small.cost > large.cost; ++i) {
    const double price = (small.cost - large.cost) / (large.memory - small.memory);
    fill_to_go(1, price, scratch_);
    const Total between = descend(scratch_, 1, price, tried_);
    const double value = between.cost + price * (between.memory - limit);
    if (value > answer.bound) {
      answer.bound = value;
      price_ = price;
      priced_to_go_.swap(scratch_);
    }
    const double known = large.cost + price * (large.memory - limit);
    const bool fits = between.memory <= limit;
    if (fits) take(between);
    if (value >= known - kRounding * std::fabs(known)) break;
    (fits ? small : large) = between;
  }
  return true;
}

bool LabelSetting::hopeless(std::int32_t node, std::int32_t state, double memory, double cost) const {
  const std::size_t at = cell(node, state);
  if (memory + memory_to_go_[at] > problem_.limit) return true;
  if (cost + cost_to_go_[at] >= best_) return true;
  return cost + price_ * (memory - problem_.limit) + priced_to_go_[at] >= best_;
}

void LabelSetting::begin_labels() {
  labels_.clear();
  first_.clear();
  for (std::int32_t s = 0, b = 0; s < count(); ++s) {
    first_.push_back(static_cast<std::int32_t>(labels_.size()));
    const bool begins = b < static_cast<std::int32_t>(begin_states_.size()) && begin_states_[b] == s;
    if (!begins) continue;
    ++b;
    const Label label{node_memory(0, s), node_cost(0, s), -1, s};
    if (!hopeless(0, s, label.memory, label.cost)) labels_.push_back(label);
  }
  first_.push_back(static_cast<std::int32_t>(labels_.size()));
}

// The labels of the states before, ascending in memory, into one front of the state.
void LabelSetting::merge_into(std::int32_t node, std::int32_t state) {
  heads_.clear();
  for (const std::int32_t from : before_[state]) {
    if (first_[from] < first_[from + 1]) {
      heads_.push_back({first_[from], first_[from + 1], edge_cost(node - 1, from, state)});
    }
  }
  const double more_memory = node_memory(node, state);
  const double more_cost = node_cost(node, state);
  double least = kInfinite;
  while (!heads_.empty()) {
    std::size_t h = 0;
    for (std::size_t i = 1; i < heads_.size(); ++i) {
      const Label& a = labels_[heads_[i].next];
      const Label& b = labels_[heads_[h].next];
      const bool before =
          a.memory < b.memory || (a.memory == b.memory && a.cost + heads_[i].edge < b.cost + heads_[h].edge);
      if (before) h = i;
    }
    const Label& from = labels_[heads_[h].next];
    const Label label{from.memory + more_memory, from.cost + heads_[h].edge + more_cost, heads_[h].next, state};
    if (++heads_[h].next == heads_[h].end) heads_.erase(heads_.begin() + static_cast<std::ptrdiff_t>(h));
    if (label.cost >= least || hopeless(node, state, label.memory, label.cost)) continue;
    least = label.cost;
    labels_.push_back(label);
  }
}

void LabelSetting::extend(std::int32_t node) {
  fresh_.clear();
  for (std::int32_t s = 0; s < count(); ++s) {
    fresh_.push_back(static_cast<std::int32_t>(labels_.size()));
    merge_into(node, s);
  }
  fresh_.push_back(static_cast<std::int32_t>(labels_.size()));
  first_.swap(fresh_);
}

// Every label that is left fits and costs less than the best choice known before.
void LabelSetting::finish(ChainAnswer& answer) {
  std::int32_t best = -1;
  for (std::int32_t i = first_.front(); i < first_.back(); ++i) {
    if (best < 0 || labels_[i].cost < labels_[best].cost) best = i;
  }
  if (best < 0 || labels_[best].cost >= answer.cost) return;
  answer.cost = labels_[best].cost;
  answer.memory = labels_[best].memory + problem_.buffer[states_[labels_[best].state].option];
  answer.choice.assign(static_cast<std::size_t>(problem_.nodes), 0);
  for (std::int32_t n = problem_.nodes - 1, i = best; n >= 0; --n, i = labels_[i].before) {
    answer.choice[n] = states_[labels_[i].state].option;
  }
}

void LabelSetting::set_labels(ChainAnswer& answer) {
  best_ = answer.cost + kRounding * std::fabs(answer.cost);
  begin_labels();
  for (std::int32_t n = 1; n < problem_.nodes; ++n) {
    extend(n);
    answer.labels = labels_.size();
    if (answer.labels > problem_.most_labels || (problem_.stop && problem_.stop())) return;
  }
  finish(answer);
  answer.proven = true;
}

ChainAnswer LabelSetting::solve(const ChainProblem& problem) {
  TRIMTAB_ASSERT(problem.nodes >= 1 && problem.options >= 1 && problem.options <= kMostOptions, "a chain of options");
  problem_ = problem;
  make_states();
  ChainAnswer answer;
  answer.proven = true;
  if (!bound(answer) || answer.bound >= answer.cost - kRounding * std::fabs(answer.cost)) return answer;
  answer.proven = false;
  set_labels(answer);
  answer.bound = std::min(answer.bound, answer.cost);
  return answer;
}

}  // namespace trimtab::tuner::oases

#include "simulated_searches.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace trimtab::test {

using namespace coordinator;

namespace {

// The first is where jobs begin.
constexpr int kStepMs[] = {150, 120, 135, 180};

PricedPlan candidate(int ms) {
  const std::string name = "of " + std::to_string(ms) + " ms";
  PricedPlan one;
  one.plan = {nlohmann::json({{"name", name}, {"ms", ms}}).dump(), name};
  one.layout = name;
  one.predicted = {ms * 1.0, ms * 1.0, ms * 0.8, ms * 1.2, true};
  return one;
}

// Of a plan's text.
PricedPlan known(const std::string& plan) {
  const auto named = nlohmann::json::parse(plan, nullptr, false);
  return candidate(named.is_object() ? named.value("ms", kStepMs[0]) : kStepMs[0]);
}

SearchReply answer(const SearchTask& task) {
  SearchReply reply;
  reply.initial = known(task.initial.json);
  reply.incumbent = task.incumbent.empty() ? reply.initial : known(task.incumbent.json);
  for (const MeasuredPlan& seen : task.observations) {
    const PricedPlan one = known(seen.plan.json);
    reply.observed.push_back({one.layout, one.predicted});
  }
  for (const int ms : kStepMs) {
    const PricedPlan one = candidate(ms);
    if (std::ranges::count(task.excluded, one.plan.hash) == 0) reply.candidates.push_back(one);
  }
  reply.calibration_json = "{}";
  reply.evaluations = 1;
  return reply;
}

}  // namespace

void SimulatedSearches::enqueue(SearchTask task, std::function<void(SearchReply)> done) {
  time_.after(Nanoseconds(random_.between(1'000'000, 2'000'000'000)),
              [act = act_, task = std::move(task), done = std::move(done)] { act([&] { done(answer(task)); }); });
}

}  // namespace trimtab::test

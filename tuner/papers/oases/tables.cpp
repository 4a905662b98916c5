#include "papers/oases/tables.hpp"

#include <algorithm>
#include <numeric>

namespace trimtab::tuner::oases {

std::int32_t Tables::index_of(std::int32_t tp) const {
  const auto found = std::find(chain.degrees.begin(), chain.degrees.end(), tp);
  return found == chain.degrees.end() ? -1 : static_cast<std::int32_t>(found - chain.degrees.begin());
}

Schedule overlapped_schedule() {
  Schedule schedule;
  schedule.sub_batches = 2;
  schedule.cross_pass = true;
  schedule.recompute_after_communication = true;
  return schedule;
}

Plan plan_of(const Tables& tables, const Choice& choice) {
  Plan plan;
  plan.model = tables.model.name;
  plan.global_batch = plan.microbatch = tables.model.global_batch;
  plan.schedule = overlapped_schedule();
  Stage stage;
  stage.devices.resize(static_cast<std::size_t>(tables.cluster.devices()));
  std::iota(stage.devices.begin(), stage.devices.end(), 0);
  for (std::int32_t n = 0; n < tables.chain.nodes; ++n) {
    if (n == 0 || choice[n] != choice[n - 1]) {
      Segment segment;
      segment.operators = {n, n};
      segment.tp = tables.chain.degrees[choice[n]];
      segment.dp = tables.cluster.devices() / segment.tp;
      stage.segments.push_back(std::move(segment));
    }
    stage.segments.back().operators.end = n + 1;
    stage.segments.back().recompute = {stage.segments.back().operators};
  }
  plan.stages.push_back(std::move(stage));
  return plan;
}

std::optional<Choice> choice_of(const Tables& tables, const Plan& plan, std::int32_t& unusable) {
  Choice choice;
  for (const Segment& segment : plan.stages.front().segments) {
    const std::int32_t degree = tables.index_of(segment.tp);
    if (degree < 0) {
      unusable = segment.tp;
      return std::nullopt;
    }
    choice.resize(choice.size() + static_cast<std::size_t>(segment.operators.size()), degree);
  }
  return choice;
}

std::string text_of(const Chain& chain, const Choice& choice) {
  std::string text;
  for (std::size_t n = 0, run = 0; n < choice.size(); ++n) {
    ++run;
    if (n + 1 < choice.size() && choice[n + 1] == choice[n]) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(run) + " x tp " + std::to_string(chain.degrees[choice[n]]);
    run = 0;
  }
  return text;
}

}  // namespace trimtab::tuner::oases

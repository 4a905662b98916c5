#include "card/make_card.hpp"

#include <algorithm>

namespace trimtab::coordinator {

namespace {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

}  // namespace

api::Card make_card(const JobEvidence& job) {
  api::Card card;
  card.job = job.job;
  for (const auto& [number, rank] : job.ranks) {
    if (rank.steps.all().empty()) continue;
    std::vector<double> walls;
    for (const KeptStep& step : rank.steps.all()) walls.push_back(step.wall);
    if (card.ranks++ == 0) {
      card.steps = static_cast<std::int64_t>(walls.size());
      card.step_ms = {quantile(walls, 0.5), quantile(walls, 0.9)};
    }
  }
  return card;
}

}  // namespace trimtab::coordinator

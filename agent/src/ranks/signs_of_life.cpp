#include "ranks/signs_of_life.hpp"

#include <algorithm>
#include <utility>

namespace trimtab::agent {

bool SignsOfLife::is_new(const SeenRank& rank) const {
  const auto before = last_.find(rank.id);
  return before == last_.end() || before->second.rank.launch != rank.launch;
}

bool SignsOfLife::has_new(const std::vector<SeenRank>& ranks) const {
  return std::ranges::any_of(ranks, [this](const SeenRank& rank) { return is_new(rank); });
}

std::vector<SignOfLife> SignsOfLife::look(Nanoseconds now, const std::vector<SeenRank>& ranks,
                                          const ProcessorTime& processor_time) {
  std::vector<SignOfLife> signs;
  std::map<RankIdentity, Seen> seen;
  for (const SeenRank& rank : ranks) {
    Seen& one = seen[rank.id] = {rank, now, Nanoseconds(-1)};
    const bool compares = !is_new(rank);
    if (compares && last_.at(rank.id).rank.steps != rank.steps) continue;
    one.processor = processor_time(rank.id);
    if (!compares) continue;
    const Seen& then = last_.at(rank.id);
    // A log that was cut has grown, too.
    SignOfLife sign{rank.id, rank.launch, rank.output != then.rank.output, rank.records != then.rank.records, false};
    const double least = kLeastProcessorShare * static_cast<double>((now - then.at).count());
    sign.processor =
        then.processor.count() >= 0 && static_cast<double>((one.processor - then.processor).count()) > least;
    if (sign.output || sign.records || sign.processor) signs.push_back(std::move(sign));
  }
  last_ = std::move(seen);
  return signs;
}

}  // namespace trimtab::agent

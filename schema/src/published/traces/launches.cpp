#include "published/traces/launches.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "base/check.hpp"

namespace trimtab::published {

void Launches::join(std::vector<TracedWork>& work) {
  TRIMTAB_ASSERT(pieces_.size() == work.size(), "each piece of work was told");
  std::ranges::stable_sort(calls_, {}, &Call::correlation);
  for (std::size_t i = 0; i < work.size(); ++i) {
    const std::int64_t number = pieces_[i].correlation;
    const auto call = std::ranges::lower_bound(calls_, number, {}, &Call::correlation);
    if (number >= 0 && call != calls_.end() && call->correlation == number) {
      work[i].launched_ns = call->begin_ns;
    }
  }
  remove_carried_over(work);
  calls_ = {};
  pieces_ = {};
}

void Launches::remove_carried_over(std::vector<TracedWork>& work) const {
  std::unordered_map<std::int64_t, std::int64_t> first_ns;  // by stream, of what was called within the recording
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (work[i].launched_ns == TracedWork::kNotTold) continue;
    std::int64_t& first = first_ns.try_emplace(pieces_[i].stream, work[i].begin_ns).first->second;
    first = std::min(first, work[i].begin_ns);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const auto first = first_ns.find(pieces_[i].stream);
    const bool carried =
        work[i].launched_ns == TracedWork::kNotTold && first != first_ns.end() && work[i].begin_ns < first->second;
    if (!carried) work[kept++] = work[i];
  }
  work.resize(kept);
}

namespace {

template <typename Times>
void earliest(const std::vector<Times>& all, std::int64_t& ns) {
  for (const Times& one : all) ns = std::min(ns, one.begin_ns);
}

template <typename Times>
void count_from(std::vector<Times>& all, std::int64_t ns) {
  for (Times& one : all) {
    one.begin_ns -= ns;
    one.end_ns -= ns;
  }
  std::ranges::stable_sort(all, {}, &Times::begin_ns);
}

}  // namespace

void settle(TracedRank& rank) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  earliest(rank.work, first);
  earliest(rank.steps, first);
  earliest(rank.data, first);
  for (TracedWork& one : rank.work) {
    if (one.launched_ns != TracedWork::kNotTold) first = std::min(first, one.launched_ns);
  }
  for (TracedWork& one : rank.work) {
    if (one.launched_ns != TracedWork::kNotTold) one.launched_ns -= first;
  }
  count_from(rank.work, first);
  count_from(rank.steps, first);
  count_from(rank.data, first);
  std::vector<TracedStep> apart;
  for (const TracedStep& step : rank.steps) {
    if (!apart.empty() && (step.number <= apart.back().number || step.begin_ns == apart.back().begin_ns)) continue;
    if (!apart.empty()) apart.back().end_ns = std::min(apart.back().end_ns, step.begin_ns);
    apart.push_back(step);
  }
  rank.steps = std::move(apart);
}

}  // namespace trimtab::published

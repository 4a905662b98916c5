#include "records/step_terms.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace trimtab::agent {
namespace {

enum Term : std::size_t { kComputation, kCollectives, kTransfers, kGradients, kTerms };

// Intervals come in order of their beginnings.
class Sweep {
 public:
  explicit Sweep(std::uint64_t begin_ns) : now_ns_(begin_ns) { until_.fill(begin_ns); }

  void add(std::uint64_t begin_ns, std::uint64_t end_ns, std::size_t term) {
    advance(begin_ns);
    until_[term] = std::max(until_[term], end_ns);
  }

  void advance(std::uint64_t to_ns) {
    while (now_ns_ < to_ns) {
      std::size_t counts = kTerms;
      std::uint64_t next = to_ns;
      for (std::size_t term = kTerms; term-- > 0;) {
        if (until_[term] <= now_ns_) continue;
        counts = term;
        next = std::min(next, until_[term]);
      }
      by_term_[counts] += next - now_ns_;
      now_ns_ = next;
    }
  }

  [[nodiscard]] StepTermTimes times() const {
    return {by_term_[kComputation], by_term_[kCollectives], by_term_[kTransfers], by_term_[kGradients],
            by_term_[kTerms]};
  }

 private:
  std::uint64_t now_ns_;
  std::array<std::uint64_t, kTerms> until_{};
  std::array<std::uint64_t, kTerms + 1> by_term_{};  // the last: nothing ran
};

std::size_t term_of(const StepInterval& interval, std::uint64_t last_pass_ns, std::uint32_t thread) {
  const bool own = interval.thread == thread;
  switch (interval.work) {
    case StepWork::kPass:
    case StepWork::kOptimizer:
      return kComputation;
    case StepWork::kTransfer:
      return own ? kTransfers : kTerms;
    case StepWork::kCollective:
      return own && interval.end_ns <= last_pass_ns ? kCollectives : kGradients;
  }
  return kTerms;
}

}  // namespace

std::optional<StepWork> step_work(std::string_view name) {
  if (name.starts_with("op/")) return StepWork::kPass;
  if (name == "optimizer") return StepWork::kOptimizer;
  if (name.starts_with("comm/")) return StepWork::kCollective;
  if (name.starts_with("transfer/")) return StepWork::kTransfer;
  return std::nullopt;
}

StepTermTimes step_terms(std::vector<StepInterval> intervals, std::uint64_t begin_ns, std::uint64_t end_ns,
                         std::uint32_t thread) {
  std::uint64_t last_pass_ns = 0;
  for (const StepInterval& one : intervals) {
    if (one.work == StepWork::kPass) last_pass_ns = std::max(last_pass_ns, one.end_ns);
  }
  std::ranges::sort(intervals, {}, &StepInterval::begin_ns);
  Sweep sweep(begin_ns);
  for (const StepInterval& one : intervals) {
    const std::size_t term = term_of(one, last_pass_ns, thread);
    if (term == kTerms || one.end_ns <= begin_ns || one.begin_ns >= end_ns) continue;
    sweep.add(std::max(one.begin_ns, begin_ns), std::min(one.end_ns, end_ns), term);
  }
  sweep.advance(end_ns);
  return sweep.times();
}

}  // namespace trimtab::agent

#include "strategies/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trimtab::tuner {

CandidateStage stage_of(std::int32_t end, std::int32_t devices, const Split& split) {
  CandidateStage stage;
  stage.end = end;
  stage.devices = devices;
  stage.split = split;
  return stage;
}

Candidate uniform_candidate(std::int32_t microbatch, const std::vector<std::int32_t>& ends, std::int32_t devices,
                            const Split& split) {
  Candidate candidate;
  candidate.microbatch = microbatch;
  for (const std::int32_t end : ends) candidate.stages.push_back(stage_of(end, devices, split));
  return candidate;
}

std::vector<std::int32_t> even_ends(const SearchRun& run, std::int32_t stages) {
  std::vector<std::int32_t> ends = even_cuts(run.model(), stages);
  ends.push_back(run.space().operators);
  return ends;
}

bool allows_even_devices(const PlanSpace& space, std::int32_t stages) {
  if (space.devices % stages != 0) return false;
  const std::int32_t devices = space.devices / stages;
  for (std::int32_t s = 0; s < stages; ++s) {
    if (!space.allows_devices(s * devices, devices)) return false;
  }
  return true;
}

std::vector<std::vector<Range>> recomputed_of(const Plan& plan) {
  std::vector<std::vector<Range>> sets;
  for (const Stage& stage : plan.stages) {
    std::vector<Range> ranges;
    for (const Segment& segment : stage.segments) {
      ranges.insert(ranges.end(), segment.recompute.begin(), segment.recompute.end());
    }
    sets.push_back(normalized(std::move(ranges)));
  }
  return sets;
}

void keep_best(std::vector<Scored>& all, Scored candidate, std::size_t most) {
  if (!candidate.score.priced) return;
  if (all.size() >= most && !candidate.score.better_than(all.back().score)) return;
  const auto place = std::upper_bound(all.begin(), all.end(), candidate,
                                      [](const Scored& a, const Scored& b) { return a.score.better_than(b.score); });
  all.insert(place, std::move(candidate));
  if (all.size() > most) all.pop_back();
}

double own_ms(const StagePrice& price, double microbatches) {
  const double each = price.forward + price.backward + price.recompute + price.communication;
  return microbatches * each + price.sync + price.optimizer;
}

SearchStep step_of(const SearchRun& run, std::size_t stages, std::string bottleneck, std::string primitive,
                   const Score& before, const Score& after) {
  SearchStep step = timed_step(run, stages, std::move(bottleneck), std::move(primitive), before.ms, after.ms);
  step.before_ms = before.ms;
  step.before_excess_bytes = before.excess_bytes;
  step.after_excess_bytes = after.excess_bytes;
  return step;
}

SearchStep timed_step(const SearchRun& run, std::size_t stages, std::string bottleneck, std::string primitive,
                      double before_ms, double after_ms) {
  SearchStep step;
  step.evaluations = run.evaluator().evaluations();
  step.stages = static_cast<std::int32_t>(stages);
  step.bottleneck = std::move(bottleneck);
  step.primitive = std::move(primitive);
  step.before_ms = std::isfinite(before_ms) ? before_ms : after_ms;
  step.after_ms = after_ms;
  return step;
}

}  // namespace trimtab::tuner

#include "solvers/suffix_floor.hpp"

#include <algorithm>

namespace trimtab::tuner {
namespace {

// All passes one after the other.
double busy_ms(const StageFloor& stage, std::int32_t microbatches) {
  return microbatches * stage.both + stage.last - stage.backward;
}

double alone_ms(const StageFloor& stage) {
  const double backward = std::min(0.0, stage.last - stage.backward);
  // What memory adds to the two passes together may all be in the forward pass, and half of it gone with the first.
  const double both = stage.first < stage.forward ? stage.first + stage.backward : stage.both;
  return std::max(both + backward, stage.first);
}

}  // namespace

double detour_ms(const StageFloor& stage, double trip, std::int32_t ahead, std::int32_t microbatches) {
  // Where only the sum of the two passes is known, either is at most what the other's floor leaves.
  const double longest_forward = stage.both - stage.backward;
  const double longest_backward = stage.both - stage.forward;
  if (microbatches <= ahead + 1) {
    return std::max(0.0, trip - ahead * std::min({longest_forward, longest_backward, stage.both / 2}));
  }
  const double skipped = ahead * stage.both;
  if (trip > skipped) {
    const std::int32_t times = (microbatches - 1) / (ahead + 1) + 1;
    return times * trip - (times - 1) * skipped;
  }
  return std::max({0.0, 2 * trip - skipped, trip - ahead * longest_forward, trip - ahead * longest_backward});
}

SuffixFloor last_stage(const StageFloor& stage, std::int32_t microbatches) {
  SuffixFloor floor;
  floor.trip = alone_ms(stage);
  floor.last = busy_ms(stage, microbatches);
  floor.end = floor.last + stage.tail - stage.last;
  return floor;
}

SuffixFloor put_before(const StageFloor& stage, const TransferFloor& transfer, const SuffixFloor& after,
                       std::int32_t later, std::int32_t microbatches) {
  const double trip = after.trip + transfer.both_ways();
  SuffixFloor floor;
  floor.trip = alone_ms(stage) + trip;
  const double own =
      busy_ms(stage, microbatches) + detour_ms(stage, trip, std::min(later, microbatches - 1), microbatches);
  floor.last = std::max(own, stage.first + after.last + transfer.both_ways() + stage.last);
  floor.end = std::max(floor.last + stage.tail - stage.last, stage.first + transfer.first + after.end);
  return floor;
}

}  // namespace trimtab::tuner

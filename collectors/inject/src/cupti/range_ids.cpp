#include "range_ids.hpp"

#include "clock.hpp"
#include "collector_status.hpp"

namespace trimtab::inject::cupti {

namespace {

constexpr std::uint32_t kTimedEvery = 64;  // a power of two

}  // namespace

std::uint32_t RangeIds::push_next() {
  const std::uint32_t id = last_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (id == 0) return push_next();  // wrapped around: 0 says that there is none
  if (id % kTimedEvery != 0) {
    return library_->push_external_id(kExternalCustom2, id) == kSuccess ? id : 0;
  }
  // A sample of the pairs pays for all: two clock reads would cost as much as the call.
  const std::uint64_t begin = read_clock_ns(CLOCK_MONOTONIC);
  const Result result = library_->push_external_id(kExternalCustom2, id);
  collector_status.add_cost(2 * kTimedEvery * (read_clock_ns(CLOCK_MONOTONIC) - begin));
  return result == kSuccess ? id : 0;
}

void RangeIds::pop() {
  std::uint64_t last = 0;
  library_->pop_external_id(kExternalCustom2, &last);
}

void RangeIds::push_again(std::uint32_t id) {
  library_->push_external_id(kExternalCustom2, id);
}

}  // namespace trimtab::inject::cupti

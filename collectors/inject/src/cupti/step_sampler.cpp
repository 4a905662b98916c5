#include "step_sampler.hpp"

namespace trimtab::inject::cupti {

bool StepSampler::update(double duty, std::uint64_t now_ns, std::uint64_t steps) {
  if (!started_) {
    started_ = true;
    recording_ = false;
    until_ns_ = now_ns;
  }
  if (recording_) {
    const bool whole = steps - first_step_ >= options_.steps;
    if (steps != first_step_ && !whole && now_ns < until_ns_) {
      until_ns_ = began_ns_ + options_.longest_phase_ns;  // there are steps: wait for a whole one
    }
    if (!whole && now_ns < until_ns_) return true;
    recording_ = false;
    const auto lasted = static_cast<double>(now_ns - began_ns_);
    until_ns_ = now_ns + static_cast<std::uint64_t>(lasted * (1 / duty - 1));
    return false;
  }
  if (now_ns < until_ns_) return false;
  recording_ = true;
  began_ns_ = now_ns;
  first_step_ = steps;
  until_ns_ = now_ns + (steps == 0 ? options_.slice_ns : options_.longest_phase_ns);
  return true;
}

}  // namespace trimtab::inject::cupti

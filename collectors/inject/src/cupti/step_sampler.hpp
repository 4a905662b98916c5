#pragma once

// When kernels are recorded, at a duty below one: whole training steps where the job tells them (ranges named "step"),
// slices of time where it does not. Recording begins somewhere within a step, so a phase lasts until two steps have
// ended: the second was recorded whole. Pure: time is an argument.

#include <cstdint>

namespace trimtab::inject::cupti {

struct SamplerOptions {
  std::uint64_t slice_ns = 250'000'000;            // without steps
  std::uint64_t longest_phase_ns = 5'000'000'000;  // with steps; a job whose steps are longer is sampled in parts
  std::uint64_t steps = 2;
};

class StepSampler {
 public:
  constexpr explicit StepSampler(const SamplerOptions& options = {}) : options_(options) {}

  // Whether kernels are to be recorded from now on. `steps` is how many have ended.
  bool update(double duty, std::uint64_t now_ns, std::uint64_t steps);
  [[nodiscard]] bool recording() const { return recording_; }
  // When update() will say something new, if no step ends before; the caller sleeps until then.
  [[nodiscard]] std::uint64_t next_ns() const { return until_ns_; }
  // Begins with a phase of recording at the next update().
  void restart() { started_ = false; }

 private:
  SamplerOptions options_;
  bool started_ = false;
  bool recording_ = false;
  std::uint64_t began_ns_ = 0;
  std::uint64_t until_ns_ = 0;
  std::uint64_t first_step_ = 0;
};

}  // namespace trimtab::inject::cupti

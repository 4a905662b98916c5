#pragma once

// When the steps after a change of plan count: compilation, graph capture and the allocator make the first ones slow,
// and nobody knows how many. Warm-up ends with the first step in which no rank tells of such a thing, and that is not
// clearly faster than the one before it, nor many times slower than what the job's steps usually take (not every job
// tells), after the steps that the job asks for at least, and at the latest kMostUnsettled steps later. Pure.

#include <cstdint>

namespace trimtab::coordinator {

inline constexpr std::int32_t kMostUnsettled = 12;

// Of a warm-up that is asked to have `least`.
[[nodiscard]] constexpr std::int32_t most_warmup_steps(std::int32_t least) {
  return least > 1 ? least + kMostUnsettled : least;
}

class Settling {
 public:
  // `steps` at least; 0 = none, and nothing is waited for. `usual_ms` is a step of another plan of the job; 0 =
  // unknown.
  explicit Settling(std::int32_t steps = 0, double usual_ms = 0) : least_(steps), usual_ms_(usual_ms) {}

  [[nodiscard]] bool settled() const { return settled_ || least_ == 0; }
  // A step that does not count, or one after warm-up, which changes nothing. `prepared`: JobStep's.
  void add(double wall_ms, bool prepared);

 private:
  std::int32_t least_;
  double usual_ms_;
  std::int32_t seen_ = 0;
  double before_ms_ = 0;
  bool settled_ = false;
};

}  // namespace trimtab::coordinator

#include "records/held_passes.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace trimtab::agent {

void HeldPasses::pass(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint32_t thread, Into into) {
  if (passes_.size() >= kMostPasses) tell_until(passes_[passes_.size() / 2].end_ns);
  passes_.push_back({begin_ns, std::max(begin_ns, end_ns), thread, into});
}

void HeldPasses::step_ended(std::uint64_t end_ns) {
  tell_until(std::exchange(step_end_ns_, end_ns));
}

void HeldPasses::release() {
  tell_until(std::numeric_limits<std::uint64_t>::max());
}

void HeldPasses::tell_until(std::uint64_t end_ns) {
  std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();  // beginning of a pass that stays
  std::erase_if(passes_, [&](const Pass& pass) {
    if (pass.end_ns > end_ns) {
      oldest = std::min(oldest, pass.begin_ns);
      return false;
    }
    Statistics* into =
        communications_.ran_beside(pass.begin_ns, pass.end_ns, pass.thread) ? pass.into.beside : pass.into.alone;
    into->add(static_cast<std::int64_t>(pass.end_ns - pass.begin_ns));
    return true;
  });
  communications_.forget_until(std::min(oldest, end_ns));
}

}  // namespace trimtab::agent

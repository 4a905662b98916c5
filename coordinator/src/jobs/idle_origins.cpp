#include "jobs/idle_origins.hpp"

#include <spdlog/spdlog.h>

#include <span>
#include <utility>

namespace trimtab::coordinator {

Result<bool> IdleOrigins::fold_some() {
  if (!due_.empty()) return fold_due();
  one_by_one_ = false;
  if (clock_.monotonic() < next_round_) return false;
  return look();
}

Result<bool> IdleOrigins::look() {
  TRIMTAB_TRY(const auto origins, costs_.unfolded_origins(looked_until_, kOriginsAtOnce));
  for (const UnfoldedOrigin& origin : origins) {
    if (origin.is_stuck || unreadable_.contains(origin.name)) continue;
    if (is_idle(origin)) due_.push_back(origin.name);
  }
  if (origins.size() == kOriginsAtOnce) {
    looked_until_ = origins.back().id;
    return true;
  }
  looked_until_ = 0;
  seen_ = std::exchange(round_, {});
  next_round_ = clock_.monotonic() + kPause;
  return !due_.empty();
}

bool IdleOrigins::is_idle(const UnfoldedOrigin& origin) {
  const Nanoseconds now = clock_.monotonic();
  const auto before = seen_.extract(origin.id);
  const bool is_same = !before.empty() && before.mapped().last == origin.last;
  const Nanoseconds since = is_same ? before.mapped().since : now;
  if (now - since >= kIdle) return true;
  round_[origin.id] = {origin.last, since};
  return false;
}

Result<bool> IdleOrigins::fold_due() {
  const auto done = costs_.fold_origins(std::span(due_).first(one_by_one_ ? 1 : due_.size()));
  if (!done.ok()) return done.error().kind == ErrorKind::kBadInput ? set_apart(done.error()) : done.error();
  due_.erase(due_.begin(), due_.begin() + static_cast<std::ptrdiff_t>(*done));
  return true;
}

// One that is damaged must not keep the others from being folded.
Result<bool> IdleOrigins::set_apart(const Error& reason) {
  if (!std::exchange(one_by_one_, true)) return true;
  spdlog::error("the costs of {} stay as they are, they cannot be read: {}", due_.front(), reason.message);
  unreadable_.insert(due_.front());
  due_.erase(due_.begin());
  return true;
}

}  // namespace trimtab::coordinator

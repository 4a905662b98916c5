#include "net/rate.hpp"

namespace trimtab::net {

bool RequestRate::take(const std::string& caller, Nanoseconds now, std::uint64_t cost) {
  Nanoseconds& paid_until = account_of(caller, now);
  const auto most = static_cast<std::uint64_t>(burst_ / each_);
  const Nanoseconds next = std::max(paid_until, now) + each_ * static_cast<std::int64_t>(std::min(cost, most));
  if (next - now > burst_) return false;
  paid_until = next;
  return true;
}

Nanoseconds& RequestRate::account_of(const std::string& caller, Nanoseconds now) {
  if (const auto known = paid_until_.find(caller); known != paid_until_.end()) return known->second;
  if (paid_until_.size() >= kMostCallers) {
    std::erase_if(paid_until_, [now](const auto& one) { return one.second <= now; });
  }
  if (paid_until_.size() >= kMostCallers) return others_paid_until_;
  return paid_until_[caller];
}

}  // namespace trimtab::net

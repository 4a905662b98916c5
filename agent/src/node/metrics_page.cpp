#include "node/metrics_page.hpp"

namespace trimtab::agent {

std::optional<std::string> MetricsPage::too_often(const net::HttpRequest& head) {
  const std::string caller =
      head.peer ? "'" + head.peer->name + "'" : "address " + head.address.substr(0, head.address.rfind(':'));
  if (rate_.take(caller, clock_.monotonic())) return std::nullopt;
  return caller + " asks for metrics more often than " + std::to_string(kRequestsPerSecond) + " times a second";
}

const std::string& MetricsPage::text() {
  const Nanoseconds now = clock_.monotonic();
  if (made_ && now - *made_ < kKept) return text_;
  text_ = make_();
  made_ = now;
  return text_;
}

}  // namespace trimtab::agent

#include "refusal_log.hpp"

#include <spdlog/spdlog.h>

#include "peer_text.hpp"

namespace trimtab::coordinator {

void RefusalLog::refused(const std::string& kind, const std::string& whom, const std::string& reason) {
  ++counts_[kind];
  const Nanoseconds now = clock_.monotonic();
  if (now - since_ >= kPeriod) {
    if (unsaid_ > 0) spdlog::warn("{} more were refused since", unsaid_);
    since_ = now;
    lines_ = 0;
    unsaid_ = 0;
  }
  if (++lines_ > kLines) {
    ++unsaid_;
    return;
  }
  spdlog::warn("refused ({}): {}: {}", kind, printable(whom), printable(reason));
}

}  // namespace trimtab::coordinator

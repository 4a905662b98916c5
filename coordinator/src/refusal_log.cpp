#include "refusal_log.hpp"

#include <spdlog/spdlog.h>

namespace trimtab::coordinator {
namespace {

// A peer's words on one line, and not too many of them.
std::string printable(const std::string& text) {
  constexpr std::size_t kMost = 400;
  std::string line;
  for (const char byte : text.substr(0, kMost)) {
    const auto value = static_cast<unsigned char>(byte);
    line += value < 0x20 || value == 0x7F ? '?' : byte;
  }
  return line;
}

}  // namespace

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

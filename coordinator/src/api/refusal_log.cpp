#include "api/refusal_log.hpp"

#include <spdlog/spdlog.h>

#include "agents/peer_text.hpp"

namespace trimtab::coordinator {

void RefusalLog::refused(const std::string& kind, const std::string& whom, const std::string& reason) {
  ++counts_[kind];
  const LogPace::Answer answer = pace_.next(clock_.monotonic());
  if (answer.left_out > 0) spdlog::warn("{} more were refused since", answer.left_out);
  if (answer.say) spdlog::warn("refused ({}): {}: {}", kind, printable(whom), printable(reason));
}

}  // namespace trimtab::coordinator

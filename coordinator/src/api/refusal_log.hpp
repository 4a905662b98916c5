#pragma once

// What is said of those who are turned away. Whoever reaches the port can cause it, so lines are few
// (base/log_pace.hpp); the counts are complete. No secret gets into it.

#include <map>
#include <string>

#include "base/clock.hpp"
#include "base/log_pace.hpp"

namespace trimtab::coordinator {

class RefusalLog {
 public:
  explicit RefusalLog(const Clock& clock) : clock_(clock) {}

  // `kind` is one of a few words: it becomes a metric's label. The others may be a peer's own words.
  void refused(const std::string& kind, const std::string& whom, const std::string& reason);
  [[nodiscard]] const std::map<std::string, double>& counts() const { return counts_; }

 private:
  const Clock& clock_;
  std::map<std::string, double> counts_;
  LogPace pace_;
};

}  // namespace trimtab::coordinator

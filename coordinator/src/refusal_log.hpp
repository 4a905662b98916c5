#pragma once

// What is said of those who are turned away. Whoever reaches the port can cause it, so lines are few: ten, then one for
// each ten seconds that says how many more there were; the counts are complete. No secret gets into it.

#include <cstdint>
#include <map>
#include <string>

#include "base/clock.hpp"

namespace trimtab::coordinator {

class RefusalLog {
 public:
  static constexpr int kLines = 10;
  static constexpr Nanoseconds kPeriod = std::chrono::seconds(10);

  explicit RefusalLog(const Clock& clock) : clock_(clock) {}

  // `kind` is one of a few words: it becomes a metric's label. The others may be a peer's own words.
  void refused(const std::string& kind, const std::string& whom, const std::string& reason);
  [[nodiscard]] const std::map<std::string, double>& counts() const { return counts_; }

 private:
  const Clock& clock_;
  std::map<std::string, double> counts_;
  Nanoseconds since_{0};
  int lines_ = 0;
  std::uint64_t unsaid_ = 0;
};

}  // namespace trimtab::coordinator

#pragma once

// How many lines a log gets of what anybody can cause for ever: ten, then none until ten seconds have passed, and with
// the next one how many were left out. Pure; one owner thread.

#include <cstdint>
#include <utility>

#include "base/clock.hpp"

namespace trimtab {

class LogPace {
 public:
  static constexpr int kLines = 10;
  static constexpr Nanoseconds kPeriod = std::chrono::seconds(10);

  struct Answer {
    bool say = false;
    std::uint64_t left_out = 0;  // before it, since it was last told
  };
  // Of one line; `now` is monotonic.
  [[nodiscard]] Answer next(Nanoseconds now) {
    Answer answer;
    if (now - since_ >= kPeriod) {
      since_ = now;
      lines_ = 0;
      answer.left_out = std::exchange(left_out_, 0);
    }
    answer.say = lines_ < kLines;
    if (answer.say) {
      ++lines_;
    } else {
      ++left_out_;
    }
    return answer;
  }

 private:
  Nanoseconds since_{0};
  int lines_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace trimtab

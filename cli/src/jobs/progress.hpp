#pragma once

// What people see of a job while they wait.

#include <ostream>
#include <string>
#include <string_view>

#include "schema/api/job.hpp"

namespace trimtab::cli {

// "[########------------]  12/30": always the same width for the same `columns`. Pure.
[[nodiscard]] std::string progress_bar(std::int64_t done, std::int64_t total, int columns);
// The one line that is refreshed: phase, bar, what is going on, step, step time and loss. Cut to `width`. Pure.
[[nodiscard]] std::string progress_line(const api::JobSummary& job, std::size_t width);
// "trial 2: microbatch 4; ...: predicted 512 ms, measured 530 ms beside 610 ms: adopted (1.15x, 1.11 to 1.19)". Pure.
[[nodiscard]] std::string trial_line(const api::Trial& trial);
// Control characters (of a job's own text) cannot reach the terminal. Pure.
[[nodiscard]] std::string printable(std::string_view text);

// Lines that stay, and below them, on a terminal, one that is refreshed. Elsewhere the refreshed line is not printed at
// all.
class LiveOutput {
 public:
  LiveOutput(std::ostream& stream, bool terminal) : stream_(stream), terminal_(terminal) {}
  ~LiveOutput() { finish(); }
  LiveOutput(const LiveOutput&) = delete;
  LiveOutput& operator=(const LiveOutput&) = delete;

  void line(std::string_view text);
  void refresh(const std::string& text);
  // Removes the refreshed line.
  void finish();

 private:
  std::ostream& stream_;
  bool terminal_;
  std::string shown_;
};

// Columns of the terminal behind standard error; 100 where there is none.
[[nodiscard]] std::size_t terminal_width();

}  // namespace trimtab::cli

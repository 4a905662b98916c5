#include "jobs/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/numbers.hpp"
#include "jobs/job_state.hpp"
#include "plans/plan_text.hpp"

namespace trimtab::cli {

namespace {

// Not inside a code point.
std::string cut(const std::string& text, std::size_t width) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;
    if (begins && ++columns > width) return text.substr(0, i);
  }
  return text;
}

std::string verdict(const api::Trial& trial) {
  std::string text = trial.state.text();
  if (!trial.reason.empty()) text += ", " + trial.reason;
  if (trial.measured_ms > 0) {
    const api::Ratio ratio = trial.speedup.value_or(api::Ratio{});
    text += " (" + format_fixed(ratio.ratio, 2) + "x, " + format_fixed(ratio.low.value_or(1), 2) + " to " +
            format_fixed(ratio.high.value_or(1), 2) + ")";
  }
  const std::string message = trial.message.value_or("");
  return message.empty() ? text : text + ": " + message;
}

}  // namespace

std::string progress_bar(std::int64_t done, std::int64_t total, int columns) {
  const std::int64_t bounded = std::clamp<std::int64_t>(done, 0, std::max<std::int64_t>(total, 0));
  const auto filled = static_cast<std::size_t>(total > 0 ? bounded * columns / total : 0);
  const std::string whole = std::to_string(total);
  const std::string part = std::to_string(bounded);
  return "[" + std::string(filled, '#') + std::string(static_cast<std::size_t>(columns) - filled, '-') + "] " +
         std::string(whole.size() - std::min(whole.size(), part.size()), ' ') + part + "/" + whole;
}

std::string progress_line(const api::JobSummary& job, std::size_t width) {
  std::string text = job.phase.text();
  const api::Progress& progress = job.progress;
  if (progress.total > 0) text += " " + progress_bar(progress.done, progress.total, 24) + " " + progress.what;
  if (job.step > 0) {
    text += "  step " + std::to_string(job.step) + (job.steps > 0 ? "/" + std::to_string(job.steps) : "");
    if (job.step_ms > 0) text += "  " + format_ms(job.step_ms);
    if (job.loss) text += "  loss " + format_fixed(*job.loss, 4);
  }
  return cut(printable(text), width);
}

std::string trial_line(const api::Trial& trial) {
  const auto plan = plan_of(trial.plan);
  std::string text = "trial " + std::to_string(trial.id) + ": " + (plan ? one_line(*plan) : "plan not known") +
                     ": predicted " + format_ms(trial.predicted_ms);
  if (trial.measured_ms > 0) {
    text += ", measured " + format_ms(trial.measured_ms) + " beside " + format_ms(trial.incumbent_ms.value_or(0));
  }
  return printable(text + ": " + verdict(trial));
}

std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte < 0x20 || byte == 0x7F ? ' ' : c;
  }
  return result;
}

void LiveOutput::line(std::string_view text) {
  finish();
  stream_ << text << std::endl;  // flushed: people and pipes read it while the job runs
}

void LiveOutput::refresh(const std::string& text) {
  if (!terminal_ || text == shown_) return;
  stream_ << "\r\x1b[K" << text << std::flush;
  shown_ = text;
}

void LiveOutput::finish() {
  if (!shown_.empty()) stream_ << "\r\x1b[K" << std::flush;
  shown_.clear();
}

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 100;
  return size.ws_col - 1U;  // a full last column would wrap
}

}  // namespace trimtab::cli

#include "jobs/card_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/numbers.hpp"
#include "base/units.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kMostFindings = 3;
constexpr std::size_t kMostNotes = 4;
constexpr std::size_t kMostDevices = 3;
constexpr std::size_t kMostLines = 4;  // of one advice, reason or note

std::string whole_percent(double share) {
  return std::to_string(std::lround(100 * share)) + " %";
}

// Lines of at most kWidth columns: the first begins with `first`, the others with as many spaces.
std::string wrapped(const std::string& first, const std::string& text) {
  const std::size_t indent = display_width(first);
  std::vector<std::string> lines{first};
  bool empty = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = cut(text.substr(at, end - at), kWidth - indent);
    if (!empty && display_width(lines.back()) + 1 + display_width(word) > kWidth) {
      lines.emplace_back(indent, ' ');
      empty = true;
    }
    lines.back() += (empty ? "" : " ") + word;
    empty = false;
    at = end + 1;
  }
  if (lines.size() > kMostLines) {
    lines.resize(kMostLines);
    lines.back() = cut(lines.back(), kWidth - 4) + " ...";
  }
  return joined(lines, "\n") + "\n";
}

// "12.5 samples/s"
std::string rate(double value, const char* of) {
  return ", " + format_number(value, value < 100 ? 1 : 0) + " " + of + "/s";
}

std::string speed_line(const api::Card& card) {
  std::string line =
      "  step " + format_ms(card.step_ms.median) + " (nine of ten within " + format_ms(card.step_ms.p90) + ")";
  if (card.samples_per_s) line += rate(*card.samples_per_s, "samples");
  if (card.tokens_per_s) line += rate(*card.tokens_per_s, "tokens");
  return line + "\n";
}

std::string mfu_line(const api::Card& card) {
  if (!card.mfu || !card.peak_flops) return "";
  return "  MFU " + format_percent(*card.mfu) + " of " + format_number(*card.peak_flops / 1e12, 0) + " TFLOP/s\n";
}

std::string memory_line(const api::CardMemory& memory) {
  if (!memory.used_bytes) return "";
  std::string text = "peak " + format_bytes(*memory.used_bytes);
  if (memory.total_bytes) text += " of " + format_bytes(*memory.total_bytes);
  if (memory.left_bytes) text += ", " + format_bytes(*memory.left_bytes) + " left";
  return wrapped("  memory  ", text);
}

std::string devices_lines(const std::vector<api::CardDevices>& kinds) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kinds.size(), kMostDevices); ++i) {
    const api::CardDevices& one = kinds[i];
    const std::string ranks = std::to_string(one.ranks) + (one.ranks == 1 ? " rank on " : " ranks on ");
    text += wrapped(i == 0 ? "  devices " : "          ", ranks + (one.name.empty() ? "?" : printable(one.name)));
    for (const std::string& limit : one.limits) text += wrapped("        - ", printable(limit));
  }
  const std::size_t left = kinds.size() - std::min(kinds.size(), kMostDevices);
  return text + (left == 0 ? "" : "          and " + std::to_string(left) + " kinds more: --json\n");
}

std::string shares_lines(const api::CardShares& shares) {
  struct Part {
    const char* name;
    double share;
  };
  const std::array parts{Part{"computation", shares.computation},
                         Part{"exposed communication", shares.exposed_communication},
                         Part{"launch-bound", shares.launch_bound},
                         Part{"waiting for data", shares.data},
                         Part{"idle", shares.idle},
                         Part{"other", shares.other}};
  std::vector<std::string> told;
  for (const Part& part : parts) {
    if (part.share >= 0.005) told.push_back(std::string(part.name) + " " + whole_percent(part.share));
  }
  return told.empty() ? "" : wrapped("  time    ", joined(told));
}

std::string communication_line(const std::vector<api::CardCommunication>& kinds) {
  std::vector<std::string> told;
  for (const api::CardCommunication& one : kinds) {
    if (one.exposed >= 0.005) told.push_back(printable(one.kind) + " " + whole_percent(one.exposed));
  }
  return told.empty() ? "" : wrapped("  exposed ", joined(told));
}

// "job train-1: 4 ranks, 97 steps after warm-up"
std::string first_line(const api::Card& card, const std::string& name) {
  const std::string ranks = std::to_string(card.ranks) + (card.ranks == 1 ? " rank, " : " ranks, ");
  const std::string steps = std::to_string(card.steps) + (card.steps == 1 ? " step" : " steps");
  if (card.recorded_by.empty()) return "job " + name + ": " + ranks + steps + " after warm-up\n";
  return name + " (" + cut(printable(card.recorded_by), 20) + "): " + ranks + steps + "\n";
}

std::string title(const api::CardFinding& finding) {
  std::string text = printable(finding.name.text());
  if (finding.rank) text += " (rank " + std::to_string(*finding.rank) + ")";
  if (finding.gain <= 0) return text;
  return text + ": a step would take " + whole_percent(finding.gain) + " less (" + whole_percent(finding.low) + " to " +
         whole_percent(finding.high) + ")";
}

std::string findings_text(const std::vector<api::CardFinding>& findings) {
  std::string text;
  for (std::size_t i = 0; i < std::min(findings.size(), kMostFindings); ++i) {
    const api::CardFinding& one = findings[i];
    text += "\n" + wrapped(" " + std::to_string(i + 1) + " ", title(one));
    text += wrapped("   do    ", printable(one.advice));
    text += wrapped("   why   ", printable(one.why));
  }
  if (findings.size() > kMostFindings) {
    text += "\n   and " + std::to_string(findings.size() - kMostFindings) + " more: --json\n";
  }
  return text;
}

std::string notes_text(const std::vector<std::string>& notes) {
  std::string text = notes.empty() ? "" : "\n";
  for (std::size_t i = 0; i < std::min(notes.size(), kMostNotes); ++i) text += wrapped(" - ", printable(notes[i]));
  return text;
}

}  // namespace

std::string card_text(const api::Card& card) {
  const std::string name = cut(printable(card.job), 40);
  if (card.steps == 0) return "job " + name + ": no steps yet\n" + notes_text(card.notes);
  return first_line(card, name) + speed_line(card) + mfu_line(card) + shares_lines(card.shares) +
         communication_line(card.communication) + memory_line(card.memory) + devices_lines(card.devices) +
         findings_text(card.findings) + notes_text(card.notes);
}

}  // namespace trimtab::cli

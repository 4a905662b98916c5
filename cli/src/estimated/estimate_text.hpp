#pragma once

// Estimates for people: where a step's time goes, what a device's memory holds, and what one plan saves beside another.
// Pure.

#include <string>
#include <utility>
#include <vector>

#include "estimated/asked.hpp"
#include "estimates/find.hpp"

namespace trimtab::cli {

// "7.01 s", "412 ms".
[[nodiscard]] std::string seconds(double value);
// Bytes in GiB, with one decimal.
[[nodiscard]] std::string gib(double bytes);

// In lines of a terminal's width, `indent` spaces in front of the first.
[[nodiscard]] std::string wrapped(const std::string& text, std::size_t indent = 0);

// The parts of a step that estimates know, each with its name, in one order.
using NamedSeconds = std::pair<const char*, double>;
[[nodiscard]] std::vector<NamedSeconds> named_parts(const estimates::StepParts& parts);

// Model, machine, batch, and what was assumed.
[[nodiscard]] std::string asked_text(const Asked& asked, const estimates::Machine& machine);
// Whether anything was measured.
[[nodiscard]] std::string source_text(const Asked& asked);
// "MFU is of 989 TFLOP/s ..."
[[nodiscard]] std::string peak_text(const Asked& asked, const estimates::Machine& machine);

// "0.62 s faster: 0.80 s less pipeline bubble, but 0.18 s more gathering of parameters".
[[nodiscard]] std::string comparison(const estimates::Estimate& one, const estimates::Estimate& other);

// A column for each plan, a row for each part that any of them has.
[[nodiscard]] std::string parts_table(const std::vector<std::pair<std::string, const estimates::Estimate*>>& plans);

// What the plan tells its target, ready to paste; why not, where it cannot be told.
[[nodiscard]] std::string told_text(const Asked& asked, const estimates::UniformPlan& plan);

}  // namespace trimtab::cli

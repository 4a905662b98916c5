#include "estimated/measured.hpp"

#include "base/text_parts.hpp"
#include "estimates/constants.hpp"
#include "estimates/request.hpp"
#include "files.hpp"
#include "json_text.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

constexpr double kMostOff = 8;  // of a correction's factor: beyond it is a slip of units

// The line as a question of its own, with the asked machine and model.
Result<estimates::Request> question_of(const json& line, const std::string& source, const Asked& asked) {
  const auto plan = line.is_object() ? line.find("plan") : line.end();
  if (!line.is_object() || plan == line.end() || !plan->is_object()) {
    return bad_input(source + ": expected {\"step_s\": seconds, \"plan\": {...}}");
  }
  std::int64_t devices = 1;
  for (const char* knob : {"dp", "tp", "pp", "cp"}) {
    const auto found = plan->find(knob);
    const bool counts = found != plan->end() && found->is_number_integer() && *found > 0 && *found < 1 << 20;
    if (counts) devices = std::min<std::int64_t>(devices * found->get<std::int64_t>(), 1 << 20);
  }
  json measured = line;
  measured["plan"].emplace("global_batch", asked.global_batch);
  json question = json::parse(to_json(estimates::Request{asked.machines.front(), asked.shape, {}, {}}));
  question["gpus"] = devices;
  question["plan"] = measured["plan"];
  question["measured"] = json::array({measured});
  return estimates::parse_request(question.dump(-1, ' ', false, json::error_handler_t::replace), source);
}

}  // namespace

Result<estimates::Correction> read_measured(const std::string& path, const Asked& asked) {
  TRIMTAB_TRY(const std::string text, read_file(path));
  std::vector<estimates::MeasuredStep> steps;
  estimates::Machine machine = asked.machines.front();
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = take_line(rest);
    if (blank_parted(line).empty()) continue;
    const std::string source = path + ":" + std::to_string(number);
    TRIMTAB_TRY(const estimates::Request request, question_of(json::parse(line, nullptr, false), source, asked));
    if (!steps.empty() && request.machine.devices != machine.devices) {
      return bad_input(source + ": is of " + std::to_string(request.machine.devices) +
                       " GPUs, but the lines before of " + std::to_string(machine.devices) +
                       "; give steps of one number of GPUs");
    }
    machine = request.machine;
    steps.insert(steps.end(), request.measured.begin(), request.measured.end());
  }
  if (steps.empty()) return bad_input(path + ": expected a measured step a line, found none");
  const estimates::Correction correction =
      estimates::correction_of(machine, asked.shape, steps, estimates::Constants());
  if (correction.factor > 1 / kMostOff && correction.factor < kMostOff) return correction;
  return bad_input(
      path + ": these steps take " + format_number(correction.factor, 3) +
      " times as long as estimated. Estimates are hardly off by more than 3. Is step_s in seconds, and are "
      "they of this model, GPU and batch?");
}

}  // namespace trimtab::cli

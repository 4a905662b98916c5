// Knobs of a job's own, as --knob and [knobs.own] say them, on a command. What is accepted can be set: the command then
// says what was set, and the job document holds it.

#include "schema/own_knobs.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/text_parts.hpp"
#include "schema/job.hpp"
#include "schema/launch_script.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

constexpr std::size_t kMostKnobs = 16;

// The first line is the command. Of the others "?arg:--name=value" is a condition of the knob before, the rest are
// knobs as on a command line, or, behind '=', the values of a table in job.toml with ';' between them.
Job job_of(std::string_view text) {
  Job job;
  job.name = "fuzzed";
  job.change_class = "statistical";
  job.delivery = Delivery::kRestart;
  std::string command(take_line(text));
  std::ranges::replace_if(
      command, [](char c) { return c < 0; }, '?');  // documents are UTF-8
  const auto words = shell_words(command, "command");
  if (words.ok()) job.train = *words;
  while (!text.empty() && job.own_knobs.size() < kMostKnobs) {
    const std::string line(take_line(text));
    if (line.starts_with("?")) {
      OwnKnob none;
      OwnKnob& knob = job.own_knobs.empty() ? none : job.own_knobs.back();
      OwnKnob with = knob;
      if (fuzz::judge(add_condition(with, {line.substr(1)}), fuzz::Repeats::kAll)) knob = std::move(with);
      continue;
    }
    auto knob = line.starts_with("=") ? own_knob("table", {line.substr(1)}) : parse_own_knob(line);
    if (fuzz::judge(knob, fuzz::Repeats::kAll)) job.own_knobs.push_back(std::move(*knob));
  }
  return job;
}

void check_values(const Job& job, const OwnKnob& knob) {
  TRIMTAB_ASSERT(!knob.values.empty(), "a knob has values");
  for (const OwnSettings& value : knob.values) {
    const Job set = with_own_settings(job, value);
    const OwnSettings written = written_settings(set);
    for (const auto& [key, text] : value) {
      const auto found = written.find(key);
      TRIMTAB_ASSERT(found != written.end() && found->second == text, "a setting that is set can be read");
    }
    TRIMTAB_ASSERT(with_own_settings(set, value).train == set.train, "setting twice sets once");
    fuzz::check_utf8(own_words(value), "what people are told is valid UTF-8");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  const Job job = job_of(text);
  if (!fuzz::judge(check_own_knobs(job), fuzz::Repeats::kAll)) return 0;
  for (const OwnKnob& knob : job.own_knobs) check_values(job, knob);
  const auto again = parse_job(to_json(job), "job.json");
  TRIMTAB_ASSERT(again.ok() && again->own_knobs == job.own_knobs, "a job's document holds its own knobs");
  return 0;
}

#include "schema/job.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <toml++/toml.h>

#include "base/units.hpp"
#include "documents/job_names.hpp"
#include "schema/nearest.hpp"
#include "schema/toml_nesting.hpp"

namespace trimtab {

namespace {

using Texts = std::map<std::string, std::string>;

// What a key's value was found to be wrong for: "expected ..." without the place, which the caller knows.
using Complaint = std::optional<std::string>;

struct Reading {
  ParsedJob parsed;
  std::filesystem::path directory;
};

// One key of job.toml. The table below is all there is; help and errors come from it.
struct Key {
  std::string path;  // "trials.deadline_s"; "environment.*" and "software.*" take any name
  Complaint (*apply)(const Key& key, const toml::node& value, Reading& reading);
};

std::string leaf(const Key& key) {
  return key.path.substr(key.path.rfind('.') + 1);
}

std::string absolute(const std::filesystem::path& path, const std::filesystem::path& directory) {
  const std::filesystem::path normal = (directory / path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

Complaint read_text(const toml::node& value, std::string& out) {
  const auto text = value.value_exact<std::string>();
  if (!text) return "a text in quotes";
  out = *text;
  return {};
}

template <typename Integer>
Complaint read_integer(const toml::node& value, std::int64_t low, std::int64_t high, Integer& out) {
  const auto number = value.value_exact<std::int64_t>();
  if (!number || *number < low || *number > high) {
    return "an integer between " + std::to_string(low) + " and " + std::to_string(high);
  }
  out = static_cast<Integer>(*number);
  return {};
}

template <std::size_t N>
Complaint read_choice(const toml::node& value, const std::string_view (&names)[N], std::size_t& out) {
  const auto text = value.value_exact<std::string>();
  const auto* found = text ? std::find(std::begin(names), std::end(names), *text) : std::end(names);
  out = static_cast<std::size_t>(found - std::begin(names));
  if (found != std::end(names)) return {};
  std::string expected = "one of";
  for (const std::string_view name : names) expected += " \"" + std::string(name) + "\"";
  return expected;
}

// Read before all else (check_schema): the keys of another version may mean something else.
Complaint apply_schema(const Key&, const toml::node&, Reading&) {
  return {};
}

Complaint apply_name(const Key&, const toml::node& value, Reading& reading) {
  const Complaint complaint = read_text(value, reading.parsed.job.name);
  return complaint || !is_job_name(reading.parsed.job.name) ? Complaint(kJobNameRule) : Complaint();
}

Complaint apply_mode(const Key&, const toml::node& value, Reading& reading) {
  std::size_t choice = 0;
  Complaint complaint = read_choice(value, kJobModes, choice);
  if (!complaint) reading.parsed.job.mode = static_cast<JobMode>(choice);
  return complaint;
}

Complaint apply_delivery(const Key&, const toml::node& value, Reading& reading) {
  std::size_t choice = 0;
  Complaint complaint = read_choice(value, kDeliveries, choice);
  if (!complaint) reading.parsed.job.delivery = static_cast<Delivery>(choice);
  return complaint;
}

Complaint apply_class(const Key&, const toml::node& value, Reading& reading) {
  std::size_t choice = 0;
  Complaint complaint = read_choice(value, kChangeClasses, choice);
  if (!complaint) reading.parsed.job.change_class = kChangeClasses[choice];
  return complaint;
}

Complaint apply_world_size(const Key&, const toml::node& value, Reading& reading) {
  return read_integer(value, 1, kMaxWorldSize, reading.parsed.job.world_size);
}

Complaint apply_memory_limit(const Key&, const toml::node& value, Reading& reading) {
  constexpr const char* kExpected = "a positive size such as \"700MiB\", or an integer of bytes";
  Bytes& limit = reading.parsed.job.memory_limit;
  if (const auto text = value.value_exact<std::string>()) {
    const Result<Bytes> bytes = parse_bytes(*text);
    if (!bytes || *bytes == 0) return kExpected;
    limit = *bytes;
    return {};
  }
  return read_integer(value, 1, std::numeric_limits<Bytes>::max(), limit) ? Complaint(kExpected) : Complaint();
}

Complaint apply_steps(const Key&, const toml::node& value, Reading& reading) {
  return read_integer(value, 0, std::numeric_limits<std::int64_t>::max(), reading.parsed.job.steps);
}

Complaint apply_path(const toml::node& value, const Reading& reading, std::string& out) {
  std::string path;
  if (read_text(value, path) || path.empty()) return "a path";
  out = absolute(path, reading.directory);
  return {};
}

Complaint apply_initial_plan(const Key&, const toml::node& value, Reading& reading) {
  return apply_path(value, reading, reading.parsed.initial_plan_path);
}

Complaint apply_model(const Key&, const toml::node& value, Reading& reading) {
  return apply_path(value, reading, reading.parsed.model_path);
}

Complaint apply_elastic(const Key&, const toml::node& value, Reading& reading) {
  const auto flag = value.value_exact<bool>();
  if (!flag) return "true or false";
  reading.parsed.job.elastic = *flag;
  return {};
}

Complaint apply_target(const Key&, const toml::node& value, Reading& reading) {
  return read_text(value, reading.parsed.job.target);
}

Complaint apply_strategy(const Key&, const toml::node& value, Reading& reading) {
  return read_text(value, reading.parsed.job.strategy);
}

Complaint apply_checkpoint(const Key&, const toml::node& value, Reading& reading) {
  return apply_path(value, reading, reading.parsed.job.checkpoint);
}

Complaint read_seconds(const toml::node& value, Nanoseconds& out) {
  const auto seconds = value.value<double>();
  if (!value.is_number() || !seconds || !(*seconds >= 1e-9) || *seconds > kMaxDeadlineSeconds) {
    return "a positive number of seconds, at most 1e7";
  }
  out = Nanoseconds(std::llround(*seconds * 1e9));
  return {};
}

Complaint apply_walltime(const Key&, const toml::node& value, Reading& reading) {
  return read_seconds(value, reading.parsed.job.walltime);
}

Complaint apply_working_directory(const Key&, const toml::node& value, Reading& reading) {
  return apply_path(value, reading, reading.parsed.job.working_directory);
}

Complaint apply_command(const Key& key, const toml::node& value, Reading& reading) {
  constexpr const char* kExpected = "an array of arguments, each a text in quotes";
  const toml::array* array = value.as_array();
  if (array == nullptr || array->empty()) return kExpected;
  std::vector<std::string> arguments(array->size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (read_text((*array)[i], arguments[i])) return kExpected;
  }
  for (const auto& [name, command] : kCommands) {
    if (leaf(key) == name) reading.parsed.job.*command = arguments;
  }
  return {};
}

Complaint apply_knob(const Key& key, const toml::node& value, Reading& reading) {
  const auto flag = value.value_exact<bool>();
  if (!flag) return "true or false";
  for (const auto& [name, knob] : kKnobs) {
    if (leaf(key) == name) reading.parsed.job.knobs.*knob = *flag;
  }
  return {};
}

Complaint apply_trial_count(const Key& key, const toml::node& value, Reading& reading) {
  for (const auto& [name, count, low] : kTrialCounts) {
    if (leaf(key) == name) return read_integer(value, low, 1'000'000, reading.parsed.job.trials.*count);
  }
  return {};
}

Complaint apply_deadline(const Key&, const toml::node& value, Reading& reading) {
  return read_seconds(value, reading.parsed.job.trials.deadline);
}

Complaint apply_look_period(const Key&, const toml::node& value, Reading& reading) {
  const auto seconds = value.value<double>();
  const bool is_time = value.is_number() && seconds && *seconds >= 0 && *seconds <= kMaxDeadlineSeconds;
  const Nanoseconds period(is_time ? std::llround(*seconds * 1e9) : 1);
  if (!is_look_period(period)) return kLookRule;
  reading.parsed.job.trials.look_every = period;
  return {};
}

Complaint apply_hang(const Key&, const toml::node& value, Reading& reading) {
  return read_seconds(value, reading.parsed.job.hang);
}

Complaint apply_crash_limit(const Key&, const toml::node& value, Reading& reading) {
  return read_integer(value, 0, kMaxCrashes, reading.parsed.job.crashes.limit);
}

Complaint apply_crash_time(const Key&, const toml::node& value, Reading& reading) {
  return read_seconds(value, reading.parsed.job.crashes.within);
}

Complaint apply_crash_steps(const Key&, const toml::node& value, Reading& reading) {
  return read_integer(value, 0, kMaxCrashSteps, reading.parsed.job.crashes.within_steps);
}

Complaint apply_minimum_gain(const Key&, const toml::node& value, Reading& reading) {
  const auto gain = value.value<double>();
  if (!value.is_number() || !gain || !is_gain(*gain)) return kGainRule;
  reading.parsed.job.trials.minimum_gain = *gain;
  return {};
}

Complaint apply_overhead(const Key&, const toml::node& value, Reading& reading) {
  const auto share = value.value<double>();
  if (!value.is_number() || !share || !is_overhead(*share)) return kOverheadRule;
  reading.parsed.job.trials.overhead = *share;
  return {};
}

Complaint apply_after(const Key&, const toml::node& value, Reading& reading) {
  std::size_t choice = 0;
  Complaint complaint = read_choice(value, kAfterTuning, choice);
  if (!complaint) reading.parsed.job.trials.stop_after = choice == 1;
  return complaint;
}

const std::vector<Key>& keys() {
  static const std::vector<Key> kKeys = [] {
    std::vector<Key> all{{"schema", apply_schema},
                         {"name", apply_name},
                         {"mode", apply_mode},
                         {"delivery", apply_delivery},
                         {"world_size", apply_world_size},
                         {"memory_limit", apply_memory_limit},
                         {"steps", apply_steps},
                         {"elastic", apply_elastic},
                         {"target", apply_target},
                         {"strategy", apply_strategy},
                         {"checkpoint", apply_checkpoint},
                         {"walltime_s", apply_walltime},
                         {"hang_s", apply_hang},
                         {"class", apply_class},
                         {"initial_plan", apply_initial_plan},
                         {"model", apply_model},
                         {"working_directory", apply_working_directory},
                         {"trials.deadline_s", apply_deadline},
                         {"trials.look_every_s", apply_look_period},
                         {"trials.minimum_gain", apply_minimum_gain},
                         {"trials.overhead", apply_overhead},
                         {"trials.after", apply_after},
                         {"crashes.limit", apply_crash_limit},
                         {"crashes.within_s", apply_crash_time},
                         {"crashes.within_steps", apply_crash_steps}};
    for (const auto& command : kCommands) all.push_back({"commands." + std::string(command.name), apply_command});
    for (const auto& knob : kKnobs) all.push_back({"knobs." + std::string(knob.name), apply_knob});
    for (const auto& count : kTrialCounts) all.push_back({"trials." + std::string(count.name), apply_trial_count});
    return all;
  }();
  return kKeys;
}

std::string place(std::string_view source, const toml::source_region& region) {
  return std::string(source) + ":" + std::to_string(region.begin.line) + ": ";
}

std::string shown(const toml::node& value) {
  if (value.is_table()) return "a table";
  if (value.is_array()) return "an array";
  std::string text;
  value.visit([&](const auto& node) {
    if constexpr (toml::is_value<decltype(node)>) {
      std::ostringstream out;
      out << node;
      text = out.str();
    }
  });
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

bool is_table_of_keys(const std::string& path) {
  return std::any_of(keys().begin(), keys().end(), [&](const Key& key) { return key.path.starts_with(path + "."); });
}

Error unknown_key(const std::string& path, std::string_view source, const toml::key& key) {
  const std::string prefix = path.substr(0, path.find('.') + 1);  // empty at the top
  std::vector<std::string> known;
  for (const Key& entry : keys()) {
    const std::size_t dot = entry.path.find('.');
    if (prefix.empty() && dot != std::string::npos) {
      known.push_back(entry.path.substr(0, dot));
    } else if (entry.path.starts_with(prefix)) {
      known.push_back(entry.path);
    }
  }
  if (prefix.empty()) known.insert(known.end(), {"environment", "software"});
  return bad_input(place(source, key.source()) + "unknown key \"" + path + "\"; did you mean \"" +
                   nearest(path, known) + "\"?");
}

Status read_value(const std::string& path, const toml::key& name, const toml::node& value, std::string_view source,
                  Reading& reading) {
  const auto key = std::find_if(keys().begin(), keys().end(), [&](const Key& entry) { return entry.path == path; });
  if (key == keys().end()) return unknown_key(path, source, name);
  const Complaint complaint = key->apply(*key, value, reading);
  if (!complaint) return {};
  return bad_input(place(source, value.source()) + path + ": expected " + *complaint + ", found " + shown(value));
}

// "environment" and "software" take any names.
Texts* free_table(const std::string& path, Job& job) {
  if (path == "environment") return &job.environment;
  return path == "software" ? &job.software : nullptr;
}

Status read_texts(const std::string& path, const toml::table& table, std::string_view source, Texts& texts) {
  for (const auto& [name, value] : table) {
    std::string& text = texts[std::string(name.str())];
    if (!read_text(value, text)) continue;
    return bad_input(place(source, value.source()) + path + "." + std::string(name.str()) +
                     ": expected a text in quotes, found " + shown(value));
  }
  return {};
}

// `prefix` is empty or the table's name: the format nests once.
Status read_table(const std::string& prefix, const toml::table& table, std::string_view source, Reading& reading) {
  for (const auto& [name, value] : table) {
    const std::string path = prefix + std::string(name.str());
    const toml::table* inner = value.as_table();
    Texts* texts = free_table(path, reading.parsed.job);
    if (inner != nullptr && texts != nullptr) {
      TRIMTAB_TRY_STATUS(read_texts(path, *inner, source, *texts));
    } else if (inner != nullptr && prefix.empty() && is_table_of_keys(path)) {
      TRIMTAB_TRY_STATUS(read_table(path + ".", *inner, source, reading));
    } else if (prefix.empty() && (texts != nullptr || is_table_of_keys(path))) {
      return bad_input(place(source, value.source()) + path + ": expected a table, found " + shown(value));
    } else {
      TRIMTAB_TRY_STATUS(read_value(path, name, value, source, reading));
    }
  }
  return {};
}

Status check_schema(const toml::table& table, std::string_view source) {
  const std::string expected = "schema: expected \"" + std::string(kJobSchema) + "\", ";
  const toml::node* value = table.get("schema");
  if (value == nullptr) return bad_input(std::string(source) + ": " + expected + "found nothing");
  if (value->value_exact<std::string>() == std::string(kJobSchema)) return {};
  return bad_input(place(source, value->source()) + expected + "the version that this release reads, found " +
                   shown(*value));
}

bool runs_reference_trainer(const Job& job) {
  return std::ranges::any_of(job.train, [](const std::string& word) {
    return word == "trainer/train.py" || word.ends_with("/trainer/train.py");
  });
}

// Without a target plans may have every switch, and this trainer's ranks refuse most of them.
bool refuses_own_switches(const Job& job) {
  return job.knobs.memory_switches && job.target.empty() && runs_reference_trainer(job);
}

// The target may stand anywhere in the file, so this comes last.
void settle_knobs(const toml::table& table, Job& job) {
  if (!says_what_it_honours(job.target)) return;
  for (const auto& [name, knob] : kTargetKnobs) {
    if (!table["knobs"][name]) job.knobs.*knob = true;
  }
}

// What only the whole file can tell.
Status check_complete(const ParsedJob& parsed, std::string_view source) {
  const std::string prefix = std::string(source) + ": ";
  if (parsed.job.name.empty()) return bad_input(prefix + "name: expected " + kJobNameRule + ", found nothing");
  if (parsed.job.train.empty()) {
    return bad_input(prefix + "commands.train: expected the command that starts a rank, found nothing");
  }
  if (parsed.job.describe.empty() && parsed.model_path.empty()) {
    return bad_input(prefix + "commands.describe: expected the command that prints model.json, found nothing; " +
                     "or name a file by the key \"model\"");
  }
  if (refuses_own_switches(parsed.job)) {
    return bad_input(prefix + "knobs.memory_switches: expected false, found true: the ranks of commands.train, the " +
                     "reference trainer, refuse plans with most of these switches; leave the knob out, or set " +
                     "target = \"trainer\", whose plans have none that it refuses");
  }
  return {};
}

}  // namespace

Result<ParsedJob> parse_job_toml(std::string_view toml, std::string_view source, const std::string& directory) {
  TRIMTAB_TRY_STATUS(check_toml_keys(toml, source));
  toml::table table;
  try {
    table = toml::parse(toml, source);
  } catch (const toml::parse_error& error) {
    return not_toml(source, error.source().begin.line, error.description());
  }
  TRIMTAB_TRY_STATUS(check_schema(table, source));
  Reading reading;
  reading.directory = std::filesystem::absolute(directory.empty() ? "." : directory);
  reading.parsed.job.working_directory = absolute(".", reading.directory);
  TRIMTAB_TRY_STATUS(read_table("", table, source, reading));
  settle_knobs(table, reading.parsed.job);
  TRIMTAB_TRY_STATUS(check_complete(reading.parsed, source));
  return std::move(reading.parsed);
}

}  // namespace trimtab

#include "schema/own_knobs.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <sstream>

#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "documents/job_names.hpp"
#include "documents/json_document.hpp"
#include "schema/job.hpp"

namespace trimtab {

namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kVariable = "env:";
constexpr std::string_view kArgument = "arg:";
constexpr std::string_view kFlag = "flag:";
constexpr std::array kKinds{kVariable, kArgument, kFlag};
constexpr const char* kKeyRule = "env:NAME, arg:--name or flag:--name";
constexpr std::string_view kOption = "-";  // what an argument without it is: "trainer.batch_size=8", as Hydra's are

bool has_kind(std::string_view key) {
  return std::ranges::any_of(kKinds, [&](std::string_view kind) { return key.starts_with(kind); });
}

// Without its kind.
std::string bare(std::string_view key) {
  return std::string(key.substr(key.find(':') + 1));
}

bool is_variable(std::string_view name) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  return !name.empty() && (name.front() < '0' || name.front() > '9') &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

// What makes ranks of processes, and what tells them of Trimtab.
bool is_a_launchs(std::string_view name) {
  constexpr std::array<std::string_view, 5> kOfRanks{"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
  return name.starts_with("TRIMTAB") || std::ranges::find(kOfRanks, name) != kOfRanks.end();
}

struct Setting {
  std::string key;
  std::string value;
};

// "arg:--batch-size=8". An argument's name ends at the first '='.
Result<Setting> parse_setting(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || !has_kind(text)) {
    return bad_input("expected KEY=VALUE with a key " + std::string(kKeyRule) + ", found '" + valid_text(text) + "'");
  }
  Setting setting{text.substr(0, equals), text.substr(equals + 1)};
  TRIMTAB_TRY_STATUS(check_own_setting(setting.key, setting.value));
  return setting;
}

Result<OwnSettings> parse_settings(const std::string& text) {
  OwnSettings settings;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    TRIMTAB_TRY(const Setting one, parse_setting(word));
    if (!settings.emplace(one.key, one.value).second)
      return bad_input("'" + valid_text(text) + "' sets " + one.key + " twice");
  }
  if (settings.empty()) return bad_input("expected settings such as arg:--batch-size=8, found nothing");
  return settings;
}

std::set<std::string> keys_of(const OwnKnob& knob) {
  std::set<std::string> keys;
  for (const OwnSettings& value : knob.values) {
    for (const auto& [key, text] : value) keys.insert(key);
  }
  return keys;
}

std::ptrdiff_t class_number(std::string_view name) {
  return std::ranges::find(kChangeClasses, name) - std::begin(kChangeClasses);
}

// The words of `env NAME=VALUE... PROGRAM` that set variables; of another command none.
std::size_t end_of_env(const Words& words) {
  if (words.empty() || (words.front() != "env" && !words.front().ends_with("/env"))) return 0;
  std::size_t end = 1;
  while (end < words.size() && is_variable(std::string_view(words[end]).substr(0, words[end].find('='))) &&
         words[end].find('=') != std::string::npos) {
    ++end;
  }
  return end;
}

std::string* variable_in(Words& words, const std::string& name) {
  for (std::size_t i = end_of_env(words); i-- > 1;) {
    if (words[i].starts_with(name + "=")) return &words[i];
  }
  return nullptr;
}

// "--name value", "--name=value" or, of a name without dashes, "name=value"; the last one counts, as for most parsers.
struct ArgumentPlace {
  std::size_t word = 0;
  bool has_equals = false;
  bool has_value = false;
};

std::optional<ArgumentPlace> find_argument(const Words& words, const std::string& name) {
  for (std::size_t i = words.size(); i-- > 0;) {
    if (words[i].starts_with(name + "=")) return ArgumentPlace{i, true, true};
    if (words[i] != name || !name.starts_with(kOption)) continue;
    return ArgumentPlace{i, false, i + 1 < words.size() && !words[i + 1].starts_with("--")};
  }
  return std::nullopt;
}

std::optional<std::string> written_value(Job& job, const std::string& key) {
  const std::string name = bare(key);
  if (key.starts_with(kVariable)) {
    if (const std::string* word = variable_in(job.train, name)) return word->substr(name.size() + 1);
    const auto found = job.environment.find(name);
    return found == job.environment.end() ? std::nullopt : std::optional(found->second);
  }
  const auto place = find_argument(job.train, name);
  if (key.starts_with(kFlag)) return place ? "on" : "off";
  if (!place || !place->has_value) return std::nullopt;
  return place->has_equals ? job.train[place->word].substr(name.size() + 1) : job.train[place->word + 1];
}

// The command's other options are "--name=value", as some scripts demand it.
bool has_equals_style(const Words& words) {
  const auto last =
      std::ranges::find_if(words.rbegin(), words.rend(), [](const auto& word) { return word.starts_with("--"); });
  return last != words.rend() && last->find('=') != std::string::npos;
}

void set_argument(Words& words, const std::string& name, const std::string& value) {
  const auto place = find_argument(words, name);
  if (!place && has_equals_style(words)) {
    words.push_back(name + "=" + value);
  } else if (!place) {
    words.insert(words.end(), {name, value});
  } else if (place->has_equals) {
    words[place->word] = name + "=" + value;
  } else if (place->has_value) {
    words[place->word + 1] = value;
  } else {
    words.insert(words.begin() + static_cast<std::ptrdiff_t>(place->word) + 1, value);
  }
}

void set_one(Job& job, const std::string& key, const std::string& value) {
  const std::string name = bare(key);
  if (key.starts_with(kVariable)) {
    if (std::string* word = variable_in(job.train, name)) *word = name + "=" + value;
    job.environment[name] = value;
  } else if (key.starts_with(kArgument)) {
    set_argument(job.train, name, value);
  } else {
    const bool there = std::ranges::find(job.train, name) != job.train.end();
    if (value == "on" && !there) job.train.push_back(name);
    if (value == "off") std::erase(job.train, name);
  }
}

// What Trimtab puts into a launch: a trial's would be the job's own.
constexpr std::array<std::string_view, 7> kOfLaunch{"{checkpoint}", "{steps}",      "{plan}", "{target_config}",
                                                    "{scratch}",    "{rendezvous}", "{rank}"};

Status check_not_of_launch(const Job& job, const OwnKnob& knob, const OwnSettings& written) {
  for (const std::string& key : keys_of(knob)) {
    const auto value = written.find(key);
    if (value == written.end()) continue;
    for (const std::string_view placeholder : kOfLaunch) {
      if (value->second.find(placeholder) == std::string::npos) continue;
      return bad_input("job " + job.name + ": its own knob " + knob.name + " sets " + key +
                       ", where each launch has its own " + std::string(placeholder) +
                       ". Leave it out: a trial would train in the job's place");
    }
  }
  return {};
}

// "--compile=true" stays where the flag is taken away.
Status check_flags(const Job& job, const OwnKnob& knob, const std::string& prefix) {
  for (const std::string& key : keys_of(knob)) {
    const std::string name = bare(key);
    const auto with_value = [&](const std::string& word) { return word.starts_with(name + "="); };
    if (!key.starts_with(kFlag) || std::ranges::none_of(job.train, with_value)) continue;
    return bad_input(prefix + " sets the flag " + name + ", to which the command gives a value. Name it arg:" + name +
                     ", with its values");
  }
  return {};
}

// "name=value" behind a command that knows no such override would be taken for a file, or for nothing.
Status check_overrides(const Job& job, const OwnKnob& knob, const std::string& prefix) {
  for (const std::string& key : keys_of(knob)) {
    const std::string name = bare(key);
    if (!key.starts_with(kArgument) || name.starts_with(kOption) || find_argument(job.train, name)) continue;
    return bad_input(prefix + " sets " + name + ", and the command has neither '--" + name + "' nor '" + name +
                     "='. Name an option with its dashes (arg:--" + name +
                     "), or write an override's present value into the command (" + name + "=...)");
  }
  return {};
}

Status check_alone(const Job& job, const OwnKnob& knob) {
  const std::string prefix = "job " + job.name + ": its own knob " + knob.name;
  TRIMTAB_TRY_STATUS(check_overrides(job, knob, prefix));
  TRIMTAB_TRY_STATUS(check_flags(job, knob, prefix));
  if (class_number(knob.change_class) > class_number(job.change_class)) {
    return bad_input(prefix + " has class \"" + knob.change_class + "\", and the job allows changes of class \"" +
                     job.change_class + "\" at most. Set class = \"" + knob.change_class +
                     "\" in job.toml, or leave the knob out");
  }
  return {};
}

// All values that the key may have in a launch.
std::set<std::string> values_of(const OwnKnob& knob, const std::string& key, const OwnSettings& written) {
  std::set<std::string> values;
  for (const OwnSettings& one : knob.values) {
    if (const auto found = one.find(key); found != one.end()) values.insert(found->second);
  }
  if (const auto found = written.find(key); found != written.end()) values.insert(found->second);
  return values;
}

// Whether a value of the knob, or what is written, meets all conditions on its settings.
bool can_meet(const OwnKnob& knob, const OwnKnob& dependent, const OwnSettings& written) {
  const std::set<std::string> keys = keys_of(knob);
  const auto meets = [&](const OwnSettings& value) {
    return std::ranges::all_of(dependent.when, [&](const auto& condition) {
      if (!keys.contains(condition.first)) return true;
      const auto own = value.find(condition.first);
      const auto set = own != value.end() ? own : written.find(condition.first);
      const bool is_set = own != value.end() || set != written.end();
      return is_set && std::ranges::find(condition.second, set->second) != condition.second.end();
    });
  };
  return meets(written) || std::ranges::any_of(knob.values, meets);
}

Status check_conditions(const Job& job, const OwnKnob& knob, const OwnSettings& written) {
  const std::string prefix = "job " + job.name + ": its own knob " + knob.name + " depends on ";
  for (const auto& condition : knob.when) {
    const std::string& key = condition.first;
    const auto owner =
        std::ranges::find_if(job.own_knobs, [&key](const OwnKnob& other) { return keys_of(other).contains(key); });
    if (owner == job.own_knobs.end() || keys_of(knob).contains(key))
      return bad_input(prefix + key + ", which no other knob of the job sets");
    const std::set<std::string> values = values_of(*owner, key, written);
    for (const std::string& one : condition.second) {
      if (values.contains(one)) continue;
      std::string words;
      for (const std::string& value : values) words += (words.empty() ? "" : ", ") + value;
      return bad_input(prefix + key + "=" + one + ", a value that " + key + " never has. Name one of " + words +
                       ", or add it to the values of the knob " + owner->name);
    }
    if (can_meet(*owner, knob, written)) continue;
    return bad_input(prefix + "settings that no value of the knob " + owner->name +
                     " has together. Name some that one value has");
  }
  return {};
}

// "--num-workers", "-b", "trainer.batch_size".
bool is_argument(std::string_view name) {
  const std::size_t begin = name.find_first_not_of('-');
  if (begin == std::string_view::npos || name.size() < 2) return false;
  const char first = name[begin];
  const bool letter = first == '_' || (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z');
  return letter && name.find_first_of("= \t\n{}") == std::string_view::npos;
}

// What a parser would take for another option.
bool is_option(std::string_view value) {
  return value.starts_with(kOption) && value.size() > 1 && !parse_number<double>(value);
}

}  // namespace

Status check_own_setting(std::string_view key, std::string_view value) {
  for (const std::string_view text : {key, value}) {
    if (const std::string valid = valid_text(text); valid != text)
      return bad_input("expected a knob's names and values as UTF-8 text, found '" + valid + "'");
  }
  const std::string name = bare(key);
  if (!has_kind(key)) return bad_input("expected " + std::string(kKeyRule) + ", found '" + std::string(key) + "'");
  if (key.starts_with(kVariable)) {
    if (!is_variable(name)) return bad_input("'" + name + "' is no name of an environment variable");
    if (is_a_launchs(name)) return bad_input(name + " is set for each rank by its launch, and is no knob");
  } else if (!is_argument(name) || (key.starts_with(kFlag) && !name.starts_with(kOption))) {
    return bad_input("expected an argument's name such as --num-workers, found '" + name + "'");
  } else if (key.starts_with(kArgument) && name.starts_with(kOption) && is_option(value)) {
    return bad_input(std::string(key) + ": '" + std::string(value) + "' would be an option of its own, and no value");
  }
  const std::string rule = "expected on or off, found '" + std::string(value) + "'";
  if (key.starts_with(kFlag) && value != "on" && value != "off") return bad_input(std::string(key) + ": " + rule);
  if (value.find('\0') != std::string_view::npos) return bad_input(std::string(key) + ": a value without a zero byte");
  return {};
}

Result<OwnKnob> own_knob(const std::string& name, const std::vector<std::string>& values) {
  const bool lists = !has_kind(name) && !values.empty() && std::ranges::all_of(values, has_kind);
  OwnKnob knob;
  knob.name = has_kind(name) || lists ? name : std::string(kVariable) + name;
  if (lists && !is_job_name(name)) return bad_input("a knob's name: expected " + std::string(kJobNameRule));
  for (const std::string& value : values) {
    if (!lists) TRIMTAB_TRY_STATUS(check_own_setting(knob.name, value));
    Result<OwnSettings> settings = OwnSettings{{knob.name, value}};
    if (lists) settings = parse_settings(value);
    if (!settings.ok()) return wrap(knob.name, settings.error());
    if (std::ranges::find(knob.values, *settings) != knob.values.end())
      return bad_input(knob.name + " has the value '" + value + "' twice");
    knob.values.push_back(std::move(*settings));
  }
  if (knob.values.empty()) return bad_input(valid_text(knob.name) + ": expected values to try, found none");
  return knob;
}

Result<OwnKnob> parse_own_knob(const std::string& text) {
  std::string left = text;
  std::string change_class = OwnKnob().change_class;
  for (const std::string_view name : kChangeClasses) {
    const std::string suffix = "@" + std::string(name);
    if (!left.ends_with(suffix)) continue;
    change_class = name;
    left.resize(left.size() - suffix.size());
    break;
  }
  const std::size_t equals = left.find('=');
  if (equals == std::string::npos || equals == 0) {
    return bad_input("a knob is NAME=VALUE,VALUE, such as OMP_NUM_THREADS=1,2,4 or arg:--num-workers=2,4; found '" +
                     valid_text(text) + "'");
  }
  std::vector<std::string> values;
  for (const std::string_view value : parted(std::string_view(left).substr(equals + 1))) {
    if (value.empty())
      return bad_input("a knob's values stand between commas, and one of '" + valid_text(text) + "' is empty");
    values.emplace_back(value);
  }
  TRIMTAB_TRY(OwnKnob knob, own_knob(left.substr(0, equals), values));
  knob.change_class = std::move(change_class);
  return knob;
}

Status add_condition(OwnKnob& knob, const std::vector<std::string>& settings) {
  for (const std::string& text : settings) {
    TRIMTAB_TRY(const Setting one, parse_setting(text));
    knob.when[one.key].push_back(one.value);
  }
  return {};
}

Status check_own_knobs(const Job& job) {
  if (job.own_knobs.empty()) return {};
  if (job.delivery != Delivery::kRestart && job.mode != JobMode::kObserve) {
    return bad_input("job " + job.name +
                     " has knobs of its own, which a process takes when it starts: set delivery = \"restart\"");
  }
  std::map<std::string, std::string> owners;
  const OwnSettings written = written_settings(job);
  for (const OwnKnob& knob : job.own_knobs) {
    TRIMTAB_TRY_STATUS(check_alone(job, knob));
    TRIMTAB_TRY_STATUS(check_conditions(job, knob, written));
    TRIMTAB_TRY_STATUS(check_not_of_launch(job, knob, written));
    for (const std::string& key : keys_of(knob)) {
      // An argument with a value and a flag of the same name are the same word.
      const auto [owner, is_new] = owners.emplace(key.starts_with(kVariable) ? key : bare(key), knob.name);
      if (is_new) continue;
      return bad_input("job " + job.name + ": " + key + " is set by two of its own knobs, " + owner->second + " and " +
                       knob.name);
    }
  }
  return {};
}

OwnSettings written_settings(const Job& job) {
  Job copy = job;
  OwnSettings written;
  for (const OwnKnob& knob : job.own_knobs) {
    for (const std::string& key : keys_of(knob)) {
      if (auto value = written_value(copy, key)) written[key] = std::move(*value);
    }
  }
  return written;
}

Job with_own_settings(Job job, const OwnSettings& settings) {
  for (const auto& [key, value] : settings) set_one(job, key, value);
  return job;
}

std::string_view class_of_change(const std::vector<OwnKnob>& knobs, const OwnSettings& from, const OwnSettings& to) {
  const auto value_in = [](const OwnSettings& settings, const std::string& key) {
    const auto found = settings.find(key);
    return found == settings.end() ? std::nullopt : std::optional(found->second);
  };
  std::ptrdiff_t highest = 0;
  for (const OwnKnob& knob : knobs) {
    for (const std::string& key : keys_of(knob)) {
      if (value_in(from, key) != value_in(to, key)) highest = std::max(highest, class_number(knob.change_class));
    }
  }
  return kChangeClasses[highest];
}

std::string own_words(const OwnSettings& settings) {
  std::string text;
  for (const auto& [key, value] : settings) {
    if (!text.empty()) text += ", ";
    const std::string name = bare(key);
    if (key.starts_with(kVariable)) text += name + "=" + value;
    if (key.starts_with(kArgument)) text += name + " " + value;
    if (key.starts_with(kFlag)) text += value == "on" ? name : "without " + name;
  }
  return text;
}

}  // namespace trimtab

#pragma once

// Knobs of a job's own: variables and arguments of its command that no framework's plan knows, with the values that may
// be tried. Their owner says what they may change. Plain values; pure; any thread.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab {

struct Job;

// By what is set: "env:NAME" an environment variable, "arg:--name" an argument's value, "flag:--name" an argument
// without a value, which is "on" or "off".
using OwnSettings = std::map<std::string, std::string>;

struct OwnKnob {
  std::string name;                       // a key of settings where it sets that alone, else a word of its owner's
  std::string change_class = "rounding";  // what its values may do to what is learnt, as Job::change_class
  std::vector<OwnSettings> values;        // at least one
  // By key of settings: the values under which this knob may be changed. Else it stays as it is written.
  std::map<std::string, std::vector<std::string>> when;

  bool operator==(const OwnKnob&) const = default;
};

// Why `key` cannot be set; ok when it can.
[[nodiscard]] Status check_own_setting(std::string_view key, std::string_view value);

// "OMP_NUM_THREADS" is "env:OMP_NUM_THREADS". Of any other name each value lists the settings that belong together,
// with spaces between them: "arg:--batch-size=8 arg:--accumulation=2".
[[nodiscard]] Result<OwnKnob> own_knob(const std::string& name, const std::vector<std::string>& values);
// Of a command line: "OMP_NUM_THREADS=1,2,4", with "@exact" or another class behind the values where it is not
// "rounding".
[[nodiscard]] Result<OwnKnob> parse_own_knob(const std::string& text);
// "arg:--workers=2" and "arg:--workers=4": either value suits.
[[nodiscard]] Status add_condition(OwnKnob& knob, const std::vector<std::string>& settings);

// What is wrong with the job's own knobs together; ok: nothing.
[[nodiscard]] Status check_own_knobs(const Job& job);

// As the job file has them, of the keys that its own knobs name. What it does not set is left out, but a flag is "off".
[[nodiscard]] OwnSettings written_settings(const Job& job);
// The job whose command and environment have these settings instead of what is written.
[[nodiscard]] Job with_own_settings(Job job, const OwnSettings& settings);

// The class of a change of own settings: the highest of the knobs whose settings differ. "exact" where none does.
[[nodiscard]] std::string_view class_of_change(const std::vector<OwnKnob>& knobs, const OwnSettings& from,
                                               const OwnSettings& to);

// For people: "OMP_NUM_THREADS=2, --num-workers 4, without --compile"; empty of none.
[[nodiscard]] std::string own_words(const OwnSettings& settings);

}  // namespace trimtab

#pragma once

// What may stand in a setting: sizes, times, counts, choices, paths. A kind reads a value as it was given, says what it
// needs where the value does not suit, and writes a default as people would. Pure but for path(), which asks for the
// working directory; any thread.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/units.hpp"

namespace trimtab {

// A setting as somebody gave it.
struct GivenSetting {
  enum class Type : std::uint8_t { kWord, kText, kInteger, kNumber, kFlag, kList, kTable, kTables, kOther };

  std::string name;         // "trials.blocks"; of a key with a dot in it `environment."a.b"`
  std::string key;          // its last part: "blocks", "a.b"
  std::string place;        // "job.toml:7", "--devices", "TRIMTAB_DEVICES"
  Type type = Type::kWord;  // kWord: from the environment or the command line, where all is text; kTables: [[NAME]]
  std::string text;         // the value, of a text without its quotes
  std::string found;        // how messages show it: as it was written, or "an array" or "a table"
  std::vector<std::string> list;
  std::string directory;  // where relative paths start; empty = the working directory
};

// "expected an integer between 1 and 9, found 0".
[[nodiscard]] Error unsuitable(const std::string& expected, const GivenSetting& given);

// `path` from `directory`, which may be empty: the working directory. Normal, and without a slash at its end.
[[nodiscard]] Result<std::string> absolute_path(const std::string& path, const std::string& directory);

template <typename Field>
struct SettingKind {
  std::vector<GivenSetting::Type> types;  // what a file must have there, if it may not put everything in quotes
  std::string unit;                       // what the help shows for the value: "BYTES"
  std::string expected;                   // "an integer between 1 and 1024"
  std::function<Result<Field>(const GivenSetting&)> read;
  std::function<std::string(const Field&)> write;
};

using HostPort = std::pair<std::string, std::uint16_t>;

[[nodiscard]] SettingKind<std::string> text_setting(std::string unit = "TEXT");
[[nodiscard]] SettingKind<std::string> text_setting(std::string unit, std::string expected,
                                                    bool (*suits)(std::string_view));
// Made absolute.
[[nodiscard]] SettingKind<std::string> path_setting(std::string unit = "PATH");
// A word of `words`, which must outlive the kind, and its index.
[[nodiscard]] SettingKind<std::string> word_setting(std::span<const std::string_view> words);
[[nodiscard]] SettingKind<std::size_t> choice_setting(std::span<const std::string_view> words);
[[nodiscard]] SettingKind<bool> flag_setting();
[[nodiscard]] SettingKind<std::int64_t> integer_setting(std::int64_t low, std::int64_t high);
[[nodiscard]] SettingKind<double> number_setting(double low, double high);
[[nodiscard]] SettingKind<double> number_setting(std::string unit, std::string expected, bool (*suits)(double));
[[nodiscard]] SettingKind<Bytes> size_setting(Bytes low, Bytes high = std::numeric_limits<Bytes>::max());
// "5s".
[[nodiscard]] SettingKind<Nanoseconds> time_setting();
[[nodiscard]] SettingKind<Nanoseconds> time_setting(Nanoseconds low, Nanoseconds high);
// 0s, too: off.
[[nodiscard]] SettingKind<Nanoseconds> time_or_off_setting(Nanoseconds low, Nanoseconds high);
// A plain number of seconds.
[[nodiscard]] SettingKind<Nanoseconds> seconds_setting(std::string expected, bool (*suits)(double seconds));
// An array of texts, of one at least.
[[nodiscard]] SettingKind<std::vector<std::string>> arguments_setting();
// What `parse` reads, whose error says what is needed and shows no secret.
template <typename Field>
[[nodiscard]] SettingKind<Field> parsed_setting(std::string unit, std::string expected,
                                                Result<Field> (*parse)(const std::string&)) {
  return {{GivenSetting::Type::kText},
          std::move(unit),
          std::move(expected),
          [parse](const GivenSetting& given) { return parse(given.text); },
          [](const Field&) { return std::string("none"); }};
}
// HOST:PORT, where HOST may be an IPv6 address in brackets.
[[nodiscard]] SettingKind<HostPort> host_port_setting(std::uint16_t lowest_port);
// trace, debug, info, warn, error or off.
[[nodiscard]] SettingKind<std::string> log_level_setting();

}  // namespace trimtab

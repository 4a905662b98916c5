#include "schema/settings/setting_kinds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "base/numbers.hpp"
#include "base/text_parts.hpp"

namespace trimtab {

namespace {

using Type = GivenSetting::Type;

// A kind that says what it expects of every value that it cannot read.
template <typename Field, typename Read, typename Write>
SettingKind<Field> kind(std::vector<Type> types, std::string unit, const std::string& expected, Read read,
                        Write write) {
  const auto checked = [expected, read](const GivenSetting& given) -> Result<Field> {
    std::optional<Field> value = read(given);
    if (!value) return unsuitable(expected, given);
    return std::move(*value);
  };
  return {std::move(types), std::move(unit), expected, checked, write};
}

std::string number_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

struct Unit {
  std::int64_t size;
  const char* name;
};

// The largest unit of which it is a whole number: "16MiB".
template <std::size_t N>
std::string in_units(std::int64_t value, const std::array<Unit, N>& units) {
  const auto unit = std::ranges::find_if(units, [&](const Unit& one) { return value % one.size == 0; });
  return std::to_string(value / unit->size) + unit->name;
}

std::string size_text(Bytes bytes) {
  constexpr std::array<Unit, 4> kUnits{{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, ""}}};
  return in_units(bytes, kUnits);
}

std::string time_text(Nanoseconds time) {
  constexpr std::array<Unit, 7> kUnits{{{86'400'000'000'000, "d"},
                                        {3'600'000'000'000, "h"},
                                        {60'000'000'000, "min"},
                                        {1'000'000'000, "s"},
                                        {1'000'000, "ms"},
                                        {1'000, "us"},
                                        {1, "ns"}}};
  return time.count() == 0 ? "0s" : in_units(time.count(), kUnits);
}

std::string one_of(std::span<const std::string_view> words) {
  std::string expected = "one of";
  for (const std::string_view word : words) expected += " \"" + std::string(word) + "\"";
  return expected;
}

template <typename Suits>
SettingKind<std::string> text_kind(std::string unit, const std::string& expected, Suits suits) {
  const auto read = [suits](const GivenSetting& given) {
    return suits(given.text) ? std::optional(given.text) : std::nullopt;
  };
  const auto write = [](const std::string& text) { return text.empty() ? "none" : text; };
  return kind<std::string>({Type::kText}, std::move(unit), expected, read, write);
}

template <typename Suits>
SettingKind<double> number_kind(std::string unit, const std::string& expected, Suits suits) {
  const auto read = [suits](const GivenSetting& given) {
    const auto value = parse_number<double>(given.text);
    return value && suits(*value) ? value : std::nullopt;
  };
  return kind<double>({Type::kInteger, Type::kNumber}, std::move(unit), expected, read, number_text);
}

SettingKind<Nanoseconds> time_kind(const std::string& expected, bool may_be_off, Nanoseconds low, Nanoseconds high) {
  const auto read = [=](const GivenSetting& given) -> std::optional<Nanoseconds> {
    const Result<Nanoseconds> time = parse_duration(given.text);
    const bool is_off = time.ok() && may_be_off && time->count() == 0;
    return time.ok() && (is_off || (*time >= low && *time <= high)) ? std::optional(*time) : std::nullopt;
  };
  return kind<Nanoseconds>({Type::kText}, "TIME", expected, read, time_text);
}

std::string bounds(Nanoseconds low, Nanoseconds high) {
  return "a time from " + time_text(low) + " to " + time_text(high);
}

}  // namespace

Error unsuitable(const std::string& expected, const GivenSetting& given) {
  constexpr std::size_t kLongest = 60;
  const std::string found = given.found.size() > kLongest ? given.found.substr(0, kLongest) + "..." : given.found;
  return bad_input("expected " + expected + ", found " + found);
}

Result<std::string> absolute_path(const std::string& path, const std::string& directory) {
  std::error_code failure;
  const auto whole = std::filesystem::absolute(std::filesystem::path(directory) / path, failure).lexically_normal();
  if (failure) return bad_input("cannot make '" + path + "' absolute: " + failure.message());
  return (whole.has_filename() ? whole : whole.parent_path()).string();
}

SettingKind<std::string> text_setting(std::string unit) {
  return text_kind(std::move(unit), "a text in quotes", [](std::string_view) { return true; });
}

SettingKind<std::string> text_setting(std::string unit, std::string expected, bool (*suits)(std::string_view)) {
  return text_kind(std::move(unit), expected, suits);
}

SettingKind<std::string> path_setting(std::string unit) {
  SettingKind<std::string> path = text_setting(std::move(unit));
  path.expected = "a path";
  path.read = [](const GivenSetting& given) -> Result<std::string> {
    if (given.text.empty()) return unsuitable("a path", given);
    return absolute_path(given.text, given.directory);
  };
  return path;
}

SettingKind<std::size_t> choice_setting(std::span<const std::string_view> words) {
  const auto read = [words](const GivenSetting& given) {
    const auto found = std::ranges::find(words, given.text);
    return found == words.end() ? std::nullopt : std::optional<std::size_t>(found - words.begin());
  };
  const auto write = [words](std::size_t index) { return std::string(words[index]); };
  return kind<std::size_t>({Type::kText}, joined(words, "|"), one_of(words), read, write);
}

SettingKind<std::string> word_setting(std::span<const std::string_view> words) {
  const auto suits = [words](std::string_view text) { return std::ranges::find(words, text) != words.end(); };
  return text_kind(joined(words, "|"), one_of(words), suits);
}

SettingKind<std::string> log_level_setting() {
  static constexpr std::string_view kLevels[] = {"trace", "debug", "info", "warn", "error", "off"};
  return word_setting(kLevels);
}

SettingKind<bool> flag_setting() {
  const auto read = [](const GivenSetting& given) -> std::optional<bool> {
    const bool yes = given.text == "true";
    return yes || given.text == "false" ? std::optional(yes) : std::nullopt;
  };
  const auto write = [](bool flag) { return std::string(flag ? "true" : "false"); };
  return kind<bool>({Type::kFlag}, "", "true or false", read, write);
}

SettingKind<std::int64_t> integer_setting(std::int64_t low, std::int64_t high) {
  const auto read = [=](const GivenSetting& given) {
    const auto value = parse_number<std::int64_t>(given.text);
    return value && *value >= low && *value <= high ? value : std::nullopt;
  };
  const auto write = [](std::int64_t value) { return std::to_string(value); };
  return kind<std::int64_t>({Type::kInteger}, "N",
                            "an integer between " + std::to_string(low) + " and " + std::to_string(high), read, write);
}

SettingKind<double> number_setting(double low, double high) {
  const std::string expected = "a number from " + number_text(low) + " to " + number_text(high);
  return number_kind("NUMBER", expected, [=](double value) { return value >= low && value <= high; });
}

SettingKind<double> number_setting(std::string unit, std::string expected, bool (*suits)(double)) {
  return number_kind(std::move(unit), expected, suits);
}

SettingKind<Bytes> size_setting(Bytes low, Bytes high) {
  const bool is_bounded = high < std::numeric_limits<Bytes>::max();
  const std::string expected = is_bounded ? "a size from " + size_text(low) + " to " + size_text(high)
                               : low > 1  ? "a size of at least " + size_text(low)
                                          : "a positive size such as \"700MiB\", or an integer of bytes";
  const auto read = [=](const GivenSetting& given) -> std::optional<Bytes> {
    std::optional<Bytes> bytes = parse_number<Bytes>(given.text);
    const Result<Bytes> with_unit = parse_bytes(given.text);
    if (!bytes && with_unit.ok()) bytes = *with_unit;
    return bytes && *bytes >= low && *bytes <= high ? bytes : std::nullopt;
  };
  return kind<Bytes>({Type::kText, Type::kInteger}, "BYTES", expected, read, size_text);
}

SettingKind<Nanoseconds> time_setting() {
  return time_kind("a time such as \"5s\"", false, Nanoseconds::zero(), Nanoseconds::max());
}

SettingKind<Nanoseconds> time_setting(Nanoseconds low, Nanoseconds high) {
  return time_kind(bounds(low, high), false, low, high);
}

SettingKind<Nanoseconds> time_or_off_setting(Nanoseconds low, Nanoseconds high) {
  return time_kind("0s (off) or " + bounds(low, high), true, low, high);
}

SettingKind<Nanoseconds> seconds_setting(std::string expected, bool (*suits)(double)) {
  const auto read = [suits](const GivenSetting& given) -> std::optional<Nanoseconds> {
    const auto seconds = parse_number<double>(given.text);
    if (!seconds || !suits(*seconds)) return std::nullopt;
    return Nanoseconds(std::llround(*seconds * 1e9));
  };
  const auto write = [](Nanoseconds time) { return number_text(static_cast<double>(time.count()) / 1e9); };
  return kind<Nanoseconds>({Type::kInteger, Type::kNumber}, "SECONDS", expected, read, write);
}

SettingKind<std::vector<std::string>> arguments_setting() {
  const auto read = [](const GivenSetting& given) {
    return given.list.empty() ? std::nullopt : std::optional(given.list);
  };
  const auto write = [](const std::vector<std::string>&) { return std::string("none"); };
  return kind<std::vector<std::string>>({Type::kList}, "ARRAY", "an array of arguments, each a text in quotes", read,
                                        write);
}

SettingKind<HostPort> host_port_setting(std::uint16_t lowest_port) {
  const auto read = [lowest_port](const GivenSetting& given) -> std::optional<HostPort> {
    const auto colon = given.text.rfind(':');
    if (colon == std::string::npos) return std::nullopt;
    std::string host = given.text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    const auto port = parse_number<std::uint16_t>(given.text.substr(colon + 1));
    if (host.empty() || !port || *port < lowest_port) return std::nullopt;
    return HostPort(host, *port);
  };
  const auto write = [](const HostPort& place) { return place.first + ":" + std::to_string(place.second); };
  return kind<HostPort>({Type::kText}, "HOST:PORT",
                        "HOST:PORT with a port from " + std::to_string(lowest_port) + " to 65535", read, write);
}

}  // namespace trimtab

#include "base/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace trimtab {

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 10> kByteUnits{{{"", 1},
                                           {"B", 1},
                                           {"KiB", 1024.0},
                                           {"MiB", 1048576.0},
                                           {"GiB", 1073741824.0},
                                           {"TiB", 1099511627776.0},
                                           {"kB", 1e3},
                                           {"MB", 1e6},
                                           {"GB", 1e9},
                                           {"TB", 1e12}}};
constexpr std::array<Unit, 7> kTimeUnits{
    {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9}}};

template <std::size_t N>
Result<std::int64_t> parse_quantity(std::string_view text, const std::array<Unit, N>& units, const char* example) {
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view name(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  if (failure == std::errc{} && number >= 0) {
    for (const Unit& unit : units) {
      const double value = number * unit.factor;
      if (unit.name == name && value < 9e18) return static_cast<std::int64_t>(std::llround(value));
    }
  }
  return bad_input("expected a number with a unit such as " + std::string(example) + ", but found '" +
                   std::string(text) + "'");
}

std::string format_with(double value, const char* unit) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), value >= 100 ? "%.0f %s" : value >= 10 ? "%.1f %s" : "%.2f %s", value, unit);
  return text.data();
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  return parse_quantity(text, kByteUnits, "700MiB");
}

std::string format_bytes(Bytes bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1099511627776.0) return format_with(value / 1099511627776.0, "TiB");
  if (value >= 1073741824.0) return format_with(value / 1073741824.0, "GiB");
  if (value >= 1048576.0) return format_with(value / 1048576.0, "MiB");
  if (value >= 1024.0) return format_with(value / 1024.0, "KiB");
  return std::to_string(bytes) + " B";
}

Result<Nanoseconds> parse_duration(std::string_view text) {
  TRIMTAB_TRY(const std::int64_t count, parse_quantity(text, kTimeUnits, "2s or 250ms"));
  return Nanoseconds(count);
}

std::string format_duration(Nanoseconds duration) {
  const auto value = static_cast<double>(duration.count());
  if (value >= 120e9) return format_with(value / 60e9, "min");
  if (value >= 1e9) return format_with(value / 1e9, "s");
  if (value >= 1e6) return format_with(value / 1e6, "ms");
  if (value >= 1e3) return format_with(value / 1e3, "us");
  return std::to_string(duration.count()) + " ns";
}

}  // namespace trimtab

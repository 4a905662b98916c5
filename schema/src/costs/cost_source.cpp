#include "schema/cost_source.hpp"

#include <array>
#include <optional>
#include <utility>

namespace trimtab {
namespace {

using Kind = CostSource::Kind;
using Beside = CostSource::Beside;
using Clock = CostSource::Clock;

constexpr std::string_view kImport = "import:";

constexpr std::array<std::pair<std::string_view, Beside>, 3> kBeside{{{"alone", Beside::kNothing},
                                                                      {"beside-communication", Beside::kCommunication},
                                                                      {"beside-computation", Beside::kComputation}}};
constexpr std::array<std::pair<std::string_view, Clock>, 3> kClocks{
    {{"host-clock", Clock::kHost}, {"device-clock", Clock::kDevice}, {"ranks-clock", Clock::kRanks}}};
constexpr std::string_view kWaiting = "waiting";
constexpr std::string_view kDisturbed = "disturbed";

template <typename Table>
auto value_named(const Table& table, std::string_view word) -> std::optional<typename Table::value_type::second_type> {
  for (const auto& [name, value] : table) {
    if (name == word) return value;
  }
  return std::nullopt;
}

template <typename Table>
std::string word_of(const Table& table, typename Table::value_type::second_type of) {
  for (const auto& [name, value] : table) {
    if (value == of) return " " + std::string(name);
  }
  return "";
}

std::optional<Kind> kind_named(std::string_view word) {
  if (word == "benchmark" || word == "active") return Kind::kBenchmark;
  if (word == "training" || word == "passive") return Kind::kTraining;
  if (word == "estimated") return Kind::kEstimated;
  return std::nullopt;
}

// Of a kind that has no name of its own.
std::string kind_word(Kind kind) {
  return kind == Kind::kBenchmark ? "benchmark" : kind == Kind::kTraining ? "training" : "estimated";
}

bool take_word(std::string_view word, CostSource& source) {
  if (const auto beside = value_named(kBeside, word)) return source.beside = *beside, true;
  if (const auto clock = value_named(kClocks, word)) return source.clock = *clock, true;
  if (word == kWaiting) return source.waiting = true;
  if (word == kDisturbed) return source.disturbed = true;
  return false;
}

std::string_view cut_word(std::string_view& text) {
  const std::size_t end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return word;
}

}  // namespace

std::string to_text(const CostSource& source) {
  if (source.kind == Kind::kImported) return std::string(kImport) + source.name;
  if (source.kind == Kind::kUnknown) return source.name;
  std::string text = kind_word(source.kind);
  text += word_of(kBeside, source.beside) + word_of(kClocks, source.clock);
  if (source.waiting) text += " " + std::string(kWaiting);
  if (source.disturbed) text += " " + std::string(kDisturbed);
  return text;
}

CostSource parse_cost_source(std::string_view text) {
  if (text.starts_with(kImport)) return {Kind::kImported, std::string(text.substr(kImport.size()))};
  CostSource source;
  std::string_view rest = text;
  const auto kind = kind_named(cut_word(rest));
  bool known = kind.has_value();
  source.kind = kind.value_or(Kind::kUnknown);
  while (known && !rest.empty()) known = take_word(cut_word(rest), source);
  return known ? source : CostSource{Kind::kUnknown, std::string(text)};
}

bool condition_unknown(const CostSource& source) {
  if (source.kind == Kind::kUnknown) return true;
  return source.kind == Kind::kTraining && source.clock == Clock::kNotSaid;
}

std::string describe(const CostSource& source) {
  if (source.kind == Kind::kImported) return "imported from " + source.name;
  if (source.kind == Kind::kUnknown) return "unknown source '" + source.name + "'";
  std::string text = kind_word(source.kind);
  if (condition_unknown(source)) return text + ", condition unknown";
  if (source.beside == Beside::kNothing) text += ", alone";
  if (source.beside == Beside::kCommunication) text += ", beside communication";
  if (source.beside == Beside::kComputation) text += ", beside computation";
  if (source.clock == Clock::kHost) text += ", host's clock";
  if (source.clock == Clock::kDevice) text += ", device's clock";
  if (source.clock == Clock::kRanks) text += ", joined over ranks";
  if (source.waiting) text += ", waiting included";
  if (source.disturbed) text += ", disturbed";
  return text;
}

}  // namespace trimtab

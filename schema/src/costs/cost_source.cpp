#include "schema/cost_source.hpp"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/numbers.hpp"
#include "schema/sharing/contributed_source.hpp"

namespace trimtab {
namespace {

using Kind = CostSource::Kind;
using Beside = CostSource::Beside;
using Clock = CostSource::Clock;

constexpr std::string_view kImport = "import:";
constexpr std::string_view kTakenOver = "taken-over:";
constexpr std::string_view kTimes = "times=";
constexpr std::string_view kDoubt = "doubt=";
constexpr double kMillion = 1e6;

constexpr std::array<std::pair<std::string_view, Beside>, 3> kBeside{{{"alone", Beside::kNothing},
                                                                      {"beside-communication", Beside::kCommunication},
                                                                      {"beside-computation", Beside::kComputation}}};
constexpr std::array<std::pair<std::string_view, Clock>, 3> kClocks{
    {{"host-clock", Clock::kHost}, {"device-clock", Clock::kDevice}, {"ranks-clock", Clock::kRanks}}};
constexpr std::string_view kWaiting = "waiting";
constexpr std::string_view kDisturbed = "disturbed";
constexpr std::string_view kCovered = "covered";

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
  if (word == kCovered) return source.covered = true;
  return false;
}

bool take_millionths(std::string_view word, std::string_view name, std::int32_t& into) {
  if (!word.starts_with(name)) return false;
  word.remove_prefix(name.size());
  const auto end = std::from_chars(word.data(), word.data() + word.size(), into);
  return end.ec == std::errc() && end.ptr == word.data() + word.size() && into >= 0;
}

std::string_view cut_word(std::string_view& text) {
  const std::size_t end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return word;
}

// The conditions behind a kind or an import's name; false: not all of them are known.
bool take_words(std::string_view rest, CostSource& source) {
  bool known = true;
  while (known && !rest.empty()) known = take_word(cut_word(rest), source);
  return known;
}

// A name that holds blanks is whole where no conditions stand behind it.
CostSource parse_import(std::string_view text) {
  std::string_view rest = text;
  CostSource source{Kind::kImported, std::string(cut_word(rest))};
  return take_words(rest, source) ? source : CostSource{Kind::kImported, std::string(text)};
}

CostSource parse_taken_over(std::string_view text) {
  std::string_view rest = text.substr(kTakenOver.size());
  CostSource source{Kind::kTakenOver, std::string(cut_word(rest))};
  bool known = !source.name.empty();
  while (known && !rest.empty()) {
    const std::string_view word = cut_word(rest);
    known = take_millionths(word, kTimes, source.times_ppm) || take_millionths(word, kDoubt, source.doubt_ppm) ||
            take_word(word, source);
  }
  return known ? source : CostSource{Kind::kUnknown, std::string(text)};
}

std::string millionths(std::string_view name, std::int32_t value) {
  return " " + std::string(name) + std::to_string(value);
}

// What a source is called before its conditions.
std::string kind_text(const CostSource& source) {
  if (source.kind == Kind::kImported) return std::string(kImport) + source.name;
  if (source.kind != Kind::kTakenOver) return kind_word(source.kind);
  return std::string(kTakenOver) + source.name + millionths(kTimes, source.times_ppm) +
         millionths(kDoubt, source.doubt_ppm);
}

// "taken over from 5f3a9c0e12ab77d4, times 1.04 (± 10 %)": the interval of 95 %.
std::string taken_over_text(const CostSource& source) {
  std::string text = "taken over from " + source.name + ", ";
  if (source.times_ppm != 1'000'000) text += "times " + format_fixed(source.times_ppm / kMillion, 3) + " ";
  return text + "(± " + format_fixed(196 * source.doubt_ppm / kMillion, 0) + " %)";
}

// "contributed by ana (benchmark)"
std::string imported_text(const CostSource& source) {
  const auto contributor = contributor_of(source);
  if (!contributor) return "imported from " + source.name;
  const std::size_t name = source.name.find('/', source.name.find(*contributor)) + 1;
  return "contributed by " + *contributor + " (" + source.name.substr(name) + ")";
}

}  // namespace

std::string to_text(const CostSource& source) {
  if (source.kind == Kind::kUnknown) return source.name;
  std::string text = kind_text(source);
  text += word_of(kBeside, source.beside) + word_of(kClocks, source.clock);
  if (source.waiting) text += " " + std::string(kWaiting);
  if (source.disturbed) text += " " + std::string(kDisturbed);
  if (source.covered) text += " " + std::string(kCovered);
  return text;
}

CostSource parse_cost_source(std::string_view text) {
  if (text.starts_with(kImport)) return parse_import(text.substr(kImport.size()));
  if (text.starts_with(kTakenOver)) return parse_taken_over(text);
  CostSource source;
  std::string_view rest = text;
  const auto kind = kind_named(cut_word(rest));
  source.kind = kind.value_or(Kind::kUnknown);
  const bool known = kind.has_value() && take_words(rest, source);
  return known ? source : CostSource{Kind::kUnknown, std::string(text)};
}

bool seen_in_training(const CostSource& source) {
  return source.kind == Kind::kTraining || (source.kind == Kind::kImported && source.clock != Clock::kNotSaid);
}

bool condition_unknown(const CostSource& source) {
  if (source.kind == Kind::kUnknown) return true;
  return source.kind == Kind::kTraining && source.clock == Clock::kNotSaid;
}

std::string describe(const CostSource& source) {
  if (source.kind == Kind::kUnknown) return "unknown source '" + source.name + "'";
  std::string text = kind_word(source.kind);
  if (source.kind == Kind::kImported) text = imported_text(source);
  if (source.kind == Kind::kTakenOver) text = taken_over_text(source);
  if (condition_unknown(source)) return text + ", condition unknown";
  if (source.beside == Beside::kNothing) text += ", alone";
  if (source.beside == Beside::kCommunication) text += ", beside communication";
  if (source.beside == Beside::kComputation) text += ", beside computation";
  if (source.clock == Clock::kHost) text += ", host's clock";
  if (source.clock == Clock::kDevice) text += ", device's clock";
  if (source.clock == Clock::kRanks) text += ", joined over ranks";
  if (source.waiting) text += ", waiting included";
  if (source.disturbed) text += ", disturbed";
  if (source.covered) text += ", behind a cover";
  return text;
}

}  // namespace trimtab

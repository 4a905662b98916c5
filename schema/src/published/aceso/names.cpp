#include <algorithm>
#include <array>
#include <charconv>

#include "published/aceso/folder.hpp"
#include "published/text_file.hpp"

namespace trimtab::published {

namespace {

constexpr std::array<std::string_view, 3> kFamilies{"gpt", "t5", "resnet"};  // that the profiler knows
constexpr std::array<std::string_view, 4> kPrimitives{"all_gather", "all_to_all", "all_reduce", "reduce_scatter"};

bool drop_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// Takes "_tp8" off the end: the mark and a positive number.
bool take_number(std::string_view& text, std::string_view mark, std::int32_t low, std::int32_t& value) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return false;
  const std::string_view digits = text.substr(at + mark.size());
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failure != std::errc{} || end != digits.data() + digits.size() || value < low) return false;
  text = text.substr(0, at);
  return true;
}

// "gpt_1_3B".
bool take_model(std::string_view text, std::string& model, std::string& size) {
  const std::size_t end = text.find('_');
  if (end == std::string_view::npos) return false;
  model = std::string(text.substr(0, end));
  size = std::string(text.substr(end + 1));
  return std::find(kFamilies.begin(), kFamilies.end(), model) != kFamilies.end() && fit_for_a_file_name(size);
}

}  // namespace

bool parse_operator_file(std::string_view name, AcesoOperatorFile& file) {
  std::int32_t choice = 0;
  if (!drop_suffix(name, ".csv") || !take_number(name, "_algo", 0, choice) || choice > 1) return false;
  if (!take_number(name, "_tp", 1, file.tp) || !take_number(name, "_mbs", 1, file.samples)) return false;
  file.alternate = choice == 1;
  return take_model(name, file.model, file.size);
}

bool parse_collective_file(std::string_view name, AcesoCollectiveFile& file) {
  constexpr std::string_view kPrefix = "prim_";
  if (!name.starts_with(kPrefix) || !drop_suffix(name, "gpus.csv")) return false;
  name.remove_prefix(kPrefix.size());
  if (!take_number(name, "_", 2, file.group_size)) return false;
  for (const std::string_view primitive : kPrimitives) {
    std::string_view rest = name;
    if (!drop_suffix(rest, primitive) || !drop_suffix(rest, "_")) continue;
    file.primitive = std::string(primitive);
    return take_model(rest, file.model, file.size);
  }
  return false;
}

bool holds_neutral_aceso_tables(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](std::string_view name) {
    drop_suffix(name, ".gz");
    return name == "operators.csv" || name == "collectives.csv" || name == "models.csv" || name == "op_lists.json";
  });
}

}  // namespace trimtab::published

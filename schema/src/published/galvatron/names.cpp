#include <algorithm>
#include <charconv>

#include "published/galvatron/folder.hpp"
#include "published/text_file.hpp"

namespace trimtab::published {

namespace {

// What is left of a name, taken from the front.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}
  bool literal(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool number(std::int32_t low, std::int32_t& value) {
    std::int32_t read = 0;
    const auto [end, failure] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), read);
    if (failure != std::errc{} || read < low) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    value = read;
    return true;
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// "1nodes_8gpus_per_node".
bool take_shape(Words& words, GalvatronShape& shape) {
  return words.number(1, shape.nodes) && words.literal("nodes_") && words.number(1, shape.devices_per_node) &&
         words.literal("gpus_per_node");
}

bool is_precision(std::string_view word) {
  return word == "bf16" || word == "fp16" || word == "fp32";
}

// "2048", "4096_mlp"; "[512,512]" of several kinds of layers becomes "512-512".
bool read_sequence(std::string_view text, std::string& sequence) {
  const bool several = text.starts_with('[') && text.ends_with(']') && text.size() > 2;
  if (several) text = text.substr(1, text.size() - 2);
  sequence = std::string(text);
  if (several) std::replace(sequence.begin(), sequence.end(), ',', '-');
  return fit_for_a_file_name(sequence);
}

}  // namespace

bool parse_hardware_file(std::string_view name, std::string_view prefix, GalvatronShape& shape) {
  Words words(name);
  return words.literal(prefix) && words.literal("_") && take_shape(words, shape) && words.rest() == ".json";
}

bool parse_model_file(std::string_view name, std::string_view prefix, GalvatronModelFile& file) {
  Words words(name);
  if (!words.literal(prefix) || !words.literal("_") || !words.rest().ends_with(".json")) return false;
  std::string_view rest = words.rest();
  rest.remove_suffix(5);
  const std::size_t end = rest.find('_');
  if (end == std::string_view::npos || !is_precision(rest.substr(0, end))) return false;
  file.precision = std::string(rest.substr(0, end));
  rest.remove_prefix(end + 1);
  if (rest.ends_with("_all")) rest.remove_suffix(4);
  file.model = std::string(rest);
  return fit_for_a_file_name(file.model);
}

bool parse_plan_file(std::string_view name, GalvatronPlanFile& file) {
  constexpr std::string_view kPrefix = "galvatron_config_";
  const std::size_t nodes = name.find("nodes_");
  // The end of the name tells plans apart and may have brackets.
  const auto printed = [](char c) { return c > ' ' && c <= '~'; };
  if (!name.starts_with(kPrefix) || !name.ends_with(".json") || nodes == std::string_view::npos) return false;
  if (!std::all_of(name.begin(), name.end(), printed)) return false;
  const std::size_t end = name.rfind('_', nodes);
  if (end == std::string_view::npos || end < kPrefix.size()) return false;
  file.model = std::string(name.substr(kPrefix.size(), end - kPrefix.size()));
  Words words(name.substr(end + 1));
  return take_shape(words, file.shape) && words.literal("_") && words.number(1, file.gib) && words.literal("GB_") &&
         fit_for_a_file_name(file.model);
}

bool parse_time_key(std::string_view key, GalvatronTimeKey& parsed) {
  Words words(key);
  if (!words.literal("layertype_")) return false;
  std::int32_t kind = -1;
  if (words.literal("other")) {
    // Some versions number the ends, too: "layertype_other_0_bsz8".
    Words numbered = words;
    std::int32_t number = 0;
    if (numbered.literal("_") && numbered.number(0, number)) words = numbered;
  } else if (!words.number(0, kind)) {
    return false;
  }
  parsed.kind = kind;
  if (words.literal("_bsz") && !words.number(1, parsed.batch)) return false;
  if (words.empty()) return true;
  return words.literal("_seq") && read_sequence(words.rest(), parsed.sequence);
}

bool holds_neutral_galvatron_tables(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](std::string_view name) {
    if (name.ends_with(".gz")) name.remove_suffix(3);
    return name == "sources.csv" || (name.ends_with(".csv") && (name.starts_with("hw_") || name.starts_with("model_")));
  });
}

}  // namespace trimtab::published

#include "targets/megatron/expert_layers.hpp"

#include <optional>
#include <string>
#include <utility>

#include "base/numbers.hpp"
#include "documents/json_document.hpp"

namespace trimtab {

namespace {

using Pattern = std::vector<bool>;

// sum := product { "+" product }, product := list { "*" number }, list := "[" bits "]" | "(" sum ")"
class PatternReader {
 public:
  PatternReader(std::string_view text, std::size_t longest) : rest_(text), longest_(longest) {}

  // Nothing where the text is no such list, or one that is too long.
  [[nodiscard]] std::optional<Pattern> read() {
    auto whole = sum(0);
    return whole && next() == 0 ? whole : std::nullopt;
  }

 private:
  static constexpr int kDeepest = 16;

  // The character behind blanks, which is not taken; 0 at the end.
  [[nodiscard]] char next() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    return rest_.empty() ? '\0' : rest_.front();
  }
  [[nodiscard]] bool takes(char wanted) {
    if (next() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  [[nodiscard]] std::optional<Pattern> sum(int depth) {
    auto whole = product(depth);
    while (whole && takes('+')) {
      const auto more = product(depth);
      if (!more || more->size() > longest_ - whole->size()) return std::nullopt;
      whole->insert(whole->end(), more->begin(), more->end());
    }
    return whole;
  }

  [[nodiscard]] std::optional<Pattern> product(int depth) {
    auto once = list(depth);
    while (once && takes('*')) {
      const auto times = number();
      if (!times || (!once->empty() && *times > longest_ / once->size())) return std::nullopt;
      Pattern all;
      for (std::size_t i = 0; i < *times && !once->empty(); ++i) all.insert(all.end(), once->begin(), once->end());
      once = std::move(all);
    }
    return once;
  }

  [[nodiscard]] std::optional<Pattern> list(int depth) {
    if (depth < kDeepest && takes('(')) {
      auto inner = sum(depth + 1);
      return inner && takes(')') ? inner : std::nullopt;
    }
    Pattern bits;
    if (!takes('[')) return std::nullopt;
    while (!takes(']')) {
      const auto bit = number();
      if (!bit || *bit > 1 || bits.size() == longest_) return std::nullopt;
      bits.push_back(*bit == 1);
      if (!takes(',') && next() != ']') return std::nullopt;
    }
    return bits;
  }

  [[nodiscard]] std::optional<std::size_t> number() {
    (void)next();
    const std::size_t end = rest_.find_first_not_of("0123456789");
    const std::string_view digits = rest_.substr(0, end);
    rest_.remove_prefix(digits.size());
    return parse_number<std::size_t>(digits);
  }

  std::string_view rest_;
  std::size_t longest_;
};

}  // namespace

Result<std::vector<bool>> layers_with_experts(std::string_view frequency, std::int64_t layers) {
  if (const auto every = parse_number<std::int64_t>(frequency); every && *every > 0) {
    Pattern pattern;
    for (std::int64_t i = 0; i < layers; ++i) pattern.push_back(i % *every == 0);
    return pattern;
  }
  auto pattern = PatternReader(frequency, static_cast<std::size_t>(layers)).read();
  if (pattern && std::ssize(*pattern) == layers) return *std::move(pattern);
  return bad_input("--moe-layer-freq: expected a positive integer, or a list of " + std::to_string(layers) +
                   " zeros and ones, one for each layer, such as ([0]*3+[1]*58), found " + quoted_text(frequency));
}

}  // namespace trimtab

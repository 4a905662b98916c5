#include "targets/shell_variables.hpp"

#include <algorithm>

#include "base/numbers.hpp"

namespace trimtab {

namespace {

std::size_t bytes_of(const std::vector<std::string>& words) {
  std::size_t bytes = 0;
  for (const std::string& word : words) bytes += word.size() + 1;
  return bytes;
}

// Recursive descent: sums of products of numbers, names and parentheses.
class Sum {
 public:
  Sum(std::string_view text, const ShellVariables& variables) : text_(text), variables_(variables) {}

  std::optional<std::int64_t> value() {
    const auto all = sums(0);
    blanks();
    return at_ == text_.size() ? all : std::nullopt;
  }

 private:
  static constexpr int kDeepest = 64;

  std::optional<std::int64_t> sums(int depth) {
    auto left = products(depth);
    for (char sign = next_of("+-"); left && sign != 0; sign = next_of("+-")) left = apply(*left, sign, products(depth));
    return left;
  }

  std::optional<std::int64_t> products(int depth) {
    auto left = factor(depth);
    for (char sign = next_of("*/%"); left && sign != 0; sign = next_of("*/%")) left = apply(*left, sign, factor(depth));
    return left;
  }

  std::optional<std::int64_t> factor(int depth) {
    if (depth > kDeepest) return std::nullopt;
    if (next_of("(") != 0) {
      const auto inside = sums(depth + 1);
      return next_of(")") != 0 ? inside : std::nullopt;
    }
    blanks();
    while (at_ < text_.size() && (text_[at_] == '$' || text_[at_] == '{' || text_[at_] == '}')) ++at_;
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_letter(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (at_ < text_.size() && text_[at_] == '}') ++at_;
    if (const auto number = parse_number<std::int64_t>(word)) return number;
    const auto known = variables_.expand(word);
    return known && known->words.size() == 1 ? parse_number<std::int64_t>(known->words.front()) : std::nullopt;
  }

  static std::optional<std::int64_t> apply(std::int64_t left, char sign, std::optional<std::int64_t> right) {
    std::int64_t value = 0;
    if (!right) return std::nullopt;
    if (sign == '+') return __builtin_add_overflow(left, *right, &value) ? std::nullopt : std::optional(value);
    if (sign == '-') return __builtin_sub_overflow(left, *right, &value) ? std::nullopt : std::optional(value);
    if (sign == '*') return __builtin_mul_overflow(left, *right, &value) ? std::nullopt : std::optional(value);
    if (*right == 0 || *right == -1) return std::nullopt;
    return sign == '/' ? left / *right : left % *right;
  }

  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }

  char next_of(std::string_view signs) {
    blanks();
    if (at_ == text_.size() || signs.find(text_[at_]) == std::string_view::npos) return 0;
    return text_[at_++];
  }

  std::string_view text_;
  const ShellVariables& variables_;
  std::size_t at_ = 0;
};

}  // namespace

bool is_name_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
         letter == '_';
}

std::size_t name_length(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return 0;
  std::size_t length = 0;
  while (length < text.size() && is_name_letter(text[length])) ++length;
  return length;
}

void ShellVariables::set(const std::string& name, std::vector<std::string> words, bool array, bool append,
                         bool in_branch) {
  Value& value = values_[name];
  if (append && !value.words.empty()) {
    if (array || value.array) {
      words.insert(words.begin(), value.words.begin(), value.words.end());
    } else if (!words.empty()) {
      words.front() = value.words.front() + words.front();
    }
  }
  const bool other = !value.words.empty() && value.words != words;
  value.unsure = (value.unsure && append) || (in_branch && other && !append) || bytes_of(words) > kMostBytes;
  value.words = value.unsure ? std::vector<std::string>{""} : std::move(words);
  value.array = array || (append && value.array);
}

void ShellVariables::forget(const std::string& name) {
  values_[name] = {{""}, false, true};
}

std::optional<ShellVariables::Expansion> ShellVariables::expand(std::string_view inside) const {
  const std::size_t length = name_length(inside);
  if (length == 0) return std::nullopt;
  std::string_view behind = inside.substr(length);
  const bool apart = behind.starts_with("[@]");
  const bool whole = apart || behind.starts_with("[*]");
  if (whole) behind.remove_prefix(3);
  const bool has_default = behind.starts_with(":-") || behind.starts_with("-") || behind.starts_with(":=");
  if (!behind.empty() && !has_default) return std::nullopt;
  const auto found = values_.find(inside.substr(0, length));
  if (found == values_.end() || found->second.unsure) return std::nullopt;
  const Value& value = found->second;
  if (value.array && !whole && !value.words.empty()) return Expansion{{value.words.front()}, false};
  return Expansion{value.words, apart};
}

std::optional<std::string> ShellVariables::default_of(std::string_view inside) const {
  const std::size_t length = name_length(inside);
  if (length == 0 || values_.contains(inside.substr(0, length))) return std::nullopt;
  std::string_view behind = inside.substr(length);
  if (behind.starts_with(":-") || behind.starts_with(":=")) return std::string(behind.substr(2));
  if (behind.starts_with("-")) return std::string(behind.substr(1));
  return std::nullopt;
}

std::optional<std::int64_t> ShellVariables::sum(std::string_view expression) const {
  return Sum(expression, *this).value();
}

}  // namespace trimtab

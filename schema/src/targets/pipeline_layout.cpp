#include "targets/pipeline_layout.hpp"

#include <algorithm>
#include <string>

#include "base/numbers.hpp"
#include "documents/json_document.hpp"

namespace trimtab {

namespace {

// Spells repetitions out.
class Layout {
 public:
  explicit Layout(std::string_view text) : text_(text) {}

  [[nodiscard]] Result<std::string> spelled_out() {
    while (at_ < text_.size()) {
      TRIMTAB_TRY(const std::string unit, next());
      TRIMTAB_TRY(const std::size_t times, repetitions());
      if (unit.size() * times + out_.size() > kMostInLayout) return bad_input("is longer than any model");
      for (std::size_t i = 0; i < times; ++i) out_ += unit;
    }
    return std::move(out_);
  }

 private:
  // A letter, a bar, or what is in parentheses. Those do not nest.
  Result<std::string> next() {
    constexpr std::string_view kLetters = "EtL|";
    if (text_[at_] != '(') {
      if (kLetters.find(text_[at_]) != std::string_view::npos) return std::string(1, text_[at_++]);
      return bad_input("expected E, t, L, | or a repetition, found " + quoted_text(text_.substr(at_, 1)));
    }
    const std::size_t end = text_.find(')', at_);
    if (end == std::string_view::npos) return bad_input("has a '(' without its ')'");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return Layout(inside).spelled_out();
  }

  Result<std::size_t> repetitions() {
    if (at_ >= text_.size() || text_[at_] != '*') return std::size_t{1};
    const std::size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    const auto times = parse_number<std::size_t>(text_.substr(begin, at_ - begin));
    if (times && *times <= kMostInLayout) return *times;
    return bad_input("expected a number behind '*'");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

Result<std::vector<std::int32_t>> layers_of_layout(std::string_view text) {
  std::string plain(text);
  std::erase(plain, ',');
  TRIMTAB_TRY(const std::string all, Layout(plain).spelled_out());
  if (std::ranges::count(all, 'E') != 1 || std::ranges::count(all, 'L') != 1 || !all.starts_with('E') ||
      !all.ends_with('L')) {
    return bad_input("needs one E at its beginning and one L at its end, found " + quoted_text(text));
  }
  std::vector<std::int32_t> counts{0};
  for (const char letter : all) {
    if (letter == '|') counts.push_back(0);
    if (letter == 't') ++counts.back();
  }
  return counts;
}

}  // namespace trimtab

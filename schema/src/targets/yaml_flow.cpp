#include "targets/yaml_flow.hpp"

#include <algorithm>
#include <cmath>

#include "base/numbers.hpp"

namespace trimtab {

namespace {

constexpr int kMostNested = 64;

class FlowReader {
 public:
  FlowReader(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  Result<std::vector<Json>> all() {
    std::vector<Json> values;
    do {
      TRIMTAB_TRY(Json value, value_at(0));
      values.push_back(std::move(value));
      pass_blank();
    } while (at_ < text_.size());
    return values;
  }

 private:
  Error fault(const std::string& what) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    return bad_input(source_ + ":" + std::to_string(line) + ": " + what + ", found " +
                     (at_ < text_.size() ? quoted_text(text_.substr(at_, 1)) : std::string("nothing")));
  }

  void pass_blank() {
    constexpr std::string_view kBlank = " \t\r\n";
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (kBlank.find(text_[at_]) != std::string_view::npos) {
        ++at_;
      } else {
        return;
      }
    }
  }

  bool take(char letter) {
    pass_blank();
    if (at_ >= text_.size() || text_[at_] != letter) return false;
    ++at_;
    return true;
  }

  Result<Json> value_at(int depth) {
    if (depth > kMostNested) return fault("expected no more than " + std::to_string(kMostNested) + " levels");
    if (take('{')) return object(depth);
    if (take('[')) return list(depth);
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      TRIMTAB_TRY(const std::string text, quoted());
      return Json(text);
    }
    TRIMTAB_TRY(const std::string_view word, plain(",]}"));
    return yaml_scalar(word);
  }

  Result<Json> object(int depth) {
    Json object = Json::object();
    while (!take('}')) {
      TRIMTAB_TRY(const std::string name, member_name());
      if (!take(':')) return fault("expected a colon behind " + quoted_text(name));
      if (object.contains(name)) return fault("expected " + quoted_text(name) + " once, and it stands twice");
      TRIMTAB_TRY(object[name], value_at(depth + 1));
      if (take(',')) continue;
      if (take('}')) return object;
      return fault("expected a comma or } behind " + quoted_text(name));
    }
    return object;
  }

  Result<Json> list(int depth) {
    Json list = Json::array();
    while (!take(']')) {
      TRIMTAB_TRY(Json value, value_at(depth + 1));
      list.push_back(std::move(value));
      if (take(',')) continue;
      if (take(']')) return list;
      return fault("expected a comma or ] in a list");
    }
    return list;
  }

  Result<std::string> member_name() {
    pass_blank();
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return quoted();
    TRIMTAB_TRY(const std::string_view word, plain(":,]}"));
    return valid_text(word);
  }

  // Escapes as JSON has them; in single quotes none.
  Result<std::string> quoted() {
    const char quote = text_[at_];
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n')
      end += text_[end] == '\\' && quote == '"' ? 2 : 1;
    if (end >= text_.size() || text_[end] != quote) return fault("expected a quote that ends in its line");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    if (quote == '"') {
      const auto json = parse_json_text("\"" + std::string(inside) + "\"", source_);
      if (!json.ok() || !json->is_string()) return fault("expected a text that JSON has, too");
      at_ = end + 1;
      return json->get<std::string>();
    }
    at_ = end + 1;
    return valid_text(inside);
  }

  // Up to one of these, a remark or the end of the line.
  Result<std::string_view> plain(std::string_view ends) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '\n' && ends.find(text_[at_]) == std::string_view::npos &&
           !text_.substr(at_).starts_with(" #")) {
      ++at_;
    }
    std::string_view word = text_.substr(begin, at_ - begin);
    while (!word.empty() && (word.back() == ' ' || word.back() == '\t' || word.back() == '\r')) word.remove_suffix(1);
    if (word.empty()) return fault("expected a value");
    return word;
  }

  std::string_view text_;
  std::string source_;
  std::size_t at_ = 0;
};

}  // namespace

Json yaml_scalar(std::string_view word) {
  if (word == "true" || word == "True" || word == "TRUE") return true;
  if (word == "false" || word == "False" || word == "FALSE") return false;
  if (word == "null" || word == "~") return nullptr;
  if (const auto number = parse_number<std::int64_t>(word)) return *number;
  const bool numeric = word.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
  const auto number = numeric ? parse_number<double>(word) : std::nullopt;
  if (number && std::isfinite(*number)) return *number;
  return valid_text(word);
}

Result<std::vector<Json>> parse_yaml_flows(std::string_view text, std::string_view source) {
  return FlowReader(text, source).all();
}

}  // namespace trimtab

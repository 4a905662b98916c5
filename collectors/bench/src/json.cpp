#include "json.hpp"

#include "base/text_parts.hpp"

#include <charconv>
#include <cmath>

namespace trimtab::bench {

namespace {

class Parser {
 public:
  Parser(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  Result<Json> whole() {
    TRIMTAB_TRY(Json value, any(0));
    skip_blank();
    if (at_ != text_.size()) return wrong("the end of the text");
    return value;
  }

 private:
  Error wrong(const std::string& expected) const {
    return bad_input(std::string(source_) + ": expected " + expected + " at byte " + std::to_string(at_));
  }

  void skip_blank() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  bool take(char wanted) {
    skip_blank();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  bool take_word(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Result<Json> any(std::size_t depth) {
    if (depth > Json::kMaxDepth) return wrong("fewer nested values");
    skip_blank();
    if (at_ >= text_.size()) return wrong("a value");
    if (text_[at_] == '{') return object(depth);
    if (text_[at_] == '[') return array(depth);
    if (text_[at_] == '"') {
      TRIMTAB_TRY(std::string value, string());
      return Json(std::move(value));
    }
    if (take_word("true")) return Json(true);
    if (take_word("false")) return Json(false);
    if (take_word("null")) return Json();
    return number();
  }

  Result<Json> object(std::size_t depth) {
    ++at_;
    Json::Object members;
    if (take('}')) return Json(std::move(members));
    do {
      skip_blank();
      TRIMTAB_TRY(std::string name, string());
      if (!take(':')) return wrong("':'");
      TRIMTAB_TRY(Json value, any(depth + 1));
      if (!members.emplace(std::move(name), std::move(value)).second) return wrong("no member twice");
    } while (take(','));
    if (!take('}')) return wrong("',' or '}'");
    return Json(std::move(members));
  }

  Result<Json> array(std::size_t depth) {
    ++at_;
    Json::Array elements;
    if (take(']')) return Json(std::move(elements));
    do {
      TRIMTAB_TRY(Json value, any(depth + 1));
      elements.push_back(std::move(value));
    } while (take(','));
    if (!take(']')) return wrong("',' or ']'");
    return Json(std::move(elements));
  }

  Result<std::string> string() {
    if (at_ >= text_.size() || text_[at_] != '"') return wrong("'\"'");
    ++at_;
    std::string value;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) return wrong("no control character in a string");
      if (text_[at_] != '\\') {
        value += text_[at_++];
      } else if (!escape(value)) {
        return wrong("an escape sequence");
      }
    }
    if (at_ >= text_.size()) return wrong("'\"'");
    ++at_;
    return value;
  }

  bool escape(std::string& value) {
    ++at_;
    if (at_ >= text_.size()) return false;
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    const char what = text_[at_++];
    if (const auto found = kFrom.find(what); found != std::string_view::npos) {
      value += kTo[found];
      return true;
    }
    return what == 'u' && code_point(value);
  }

  std::optional<std::uint32_t> four_digits() {
    std::uint32_t code = 0;
    if (text_.size() - at_ < 4) return std::nullopt;
    const char* const begin = text_.data() + at_;
    if (std::from_chars(begin, begin + 4, code, 16).ptr != begin + 4) return std::nullopt;
    at_ += 4;
    return code;
  }

  bool code_point(std::string& value) {
    auto code = four_digits();
    if (!code) return false;
    if (*code >= 0xD800 && *code < 0xDC00) {
      if (!take_word("\\u")) return false;
      const auto low = four_digits();
      if (!low || *low < 0xDC00 || *low > 0xDFFF) return false;
      code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
    } else if (*code >= 0xDC00 && *code <= 0xDFFF) {
      return false;
    }
    append_utf8(value, *code);
    return true;
  }

  static void append_utf8(std::string& value, std::uint32_t code) {
    constexpr std::uint32_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};  // by how many bytes follow
    unsigned more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    value += static_cast<char>(kFirst[more] | code >> (6 * more));
    while (more-- > 0) value += static_cast<char>(0x80 | (code >> (6 * more) & 0x3F));
  }

  Result<Json> number() {
    const char* const begin = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    std::int64_t integer = 0;
    const auto whole = std::from_chars(begin, end, integer);
    const bool fraction = whole.ptr != end && (*whole.ptr == '.' || *whole.ptr == 'e' || *whole.ptr == 'E');
    if (whole.ec == std::errc() && !fraction) {
      at_ += static_cast<std::size_t>(whole.ptr - begin);
      return Json(integer);
    }
    double real = 0;
    const auto parsed = std::from_chars(begin, end, real);
    if (parsed.ec != std::errc() || !std::isfinite(real)) return wrong("a value");
    at_ += static_cast<std::size_t>(parsed.ptr - begin);
    return Json(real);
  }

  std::string_view text_;
  std::string_view source_;
  std::size_t at_ = 0;
};

const Json kNull;

// Bytes of the UTF-8 sequence that begins here; 0 where none does.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

Result<Json> Json::parse(std::string_view text, std::string_view source) {
  return Parser(text, source).whole();
}

const Json& Json::at(std::string_view name) const {
  const Object* const members = object();
  if (members == nullptr) return kNull;
  const auto found = members->find(name);
  return found == members->end() ? kNull : found->second;
}

std::optional<std::int64_t> Json::integer() const {
  return kind_ == Kind::kInteger ? std::optional(integer_) : std::nullopt;
}

std::optional<double> Json::number() const {
  if (const auto whole = integer()) return static_cast<double>(*whole);
  return kind_ == Kind::kReal ? std::optional(real_) : std::nullopt;
}

JsonObject& JsonObject::raw(std::string_view name, std::string_view value) {
  members_ += (members_.empty() ? "" : ", ") + json_string(name) + ": ";
  members_ += value;
  return *this;
}

std::string json_list(const std::vector<double>& numbers) {
  const auto whole = [](double number) { return std::to_string(std::llround(number)); };
  return "[" + joined(numbers, ", ", whole) + "]";
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const char first = text.front();
    if (length == 0) {
      quoted += '?';
    } else if (first == '"' || first == '\\') {
      quoted += {'\\', first};
    } else if (static_cast<unsigned char>(first) < 0x20) {
      constexpr char kDigits[] = "0123456789abcdef";
      quoted += "\\u00";
      quoted += kDigits[first >> 4];
      quoted += kDigits[first & 15];
    } else {
      quoted += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return quoted + '"';
}

}  // namespace trimtab::bench

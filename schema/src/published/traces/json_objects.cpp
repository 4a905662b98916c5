#include "published/traces/json_objects.hpp"

#include "documents/json_document.hpp"

namespace trimtab::published {

namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// Where braces stand outside of strings.
class Braces {
 public:
  // True: the object is whole.
  bool take(char c) {
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
      return false;
    }
    if (c == '"') in_string_ = true;
    if (c == '{') ++depth_;
    return c == '}' && --depth_ == 0;
  }

 private:
  std::int64_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace

void JsonObjects::skip_blanks() {
  while (source_.more() && is_blank(source_.current())) {
    if (source_.current() == '\n') ++next_line_;
    source_.next();
  }
}

Result<std::optional<std::string>> JsonObjects::next() {
  skip_blanks();
  line_ = next_line_;
  if (!source_.more()) return std::optional<std::string>();
  const std::string place = "line " + std::to_string(line_) + ": ";
  if (source_.current() != '{') {
    std::string found;
    for (; source_.more() && source_.current() != '\n' && found.size() < 64; source_.next()) found += source_.current();
    return bad_input(place + "expected a JSON object, found " + quoted_text(found));
  }
  std::string object;
  Braces braces;
  while (source_.more()) {
    const char c = source_.current();
    if (c == '\n') ++next_line_;
    source_.next();
    source_.mark();
    object += c;
    if (braces.take(c)) return std::optional(std::move(object));
    if (object.size() > kLongest) return bad_input(place + "expected a JSON object of at most 1 MiB");
  }
  cut_ = true;
  return std::optional<std::string>();
}

}  // namespace trimtab::published

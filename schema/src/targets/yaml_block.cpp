#include "targets/yaml_block.hpp"

#include <vector>

#include "base/text_parts.hpp"
#include "targets/yaml_flow.hpp"

namespace trimtab {

namespace {

constexpr std::string_view kBlank = " \t\r";
constexpr int kMostNested = 64;

struct Line {
  std::int64_t number = 0;
  std::size_t indent = 0;
  std::string_view text;  // without blanks and remarks around it
};

// Where a remark begins that is in no quotes.
std::size_t end_of_value(std::string_view line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote != 0) {
      if (line[i] == '\\' && quote == '"')
        ++i;
      else if (line[i] == quote)
        quote = 0;
    } else if (line[i] == '"' || line[i] == '\'') {
      quote = line[i];
    } else if (line[i] == '#' && (i == 0 || kBlank.find(line[i - 1]) != std::string_view::npos)) {
      return i;
    }
  }
  return line.size();
}

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    std::string_view line = take_line(text);
    line = line.substr(0, end_of_value(line));
    const std::size_t begin = line.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) continue;
    line = line.substr(0, line.find_last_not_of(kBlank) + 1);
    if (line == "---" || line == "...") continue;
    lines.push_back({number, begin, line.substr(begin)});
  }
  return lines;
}

class BlockReader {
 public:
  BlockReader(std::vector<Line> lines, std::string_view source) : lines_(std::move(lines)), source_(source) {}

  Result<Json> whole() {
    if (lines_.empty()) return Json::object();
    TRIMTAB_TRY(Json object, object_at(lines_.front().indent, 0));
    if (at_ == lines_.size()) return object;
    return fault(lines_[at_], "stands in no block that is open there");
  }

 private:
  Error fault(const Line& line, const std::string& what) const {
    return bad_input(source_ + ":" + std::to_string(line.number) + ": " + quoted_text(line.text) + " " + what);
  }

  [[nodiscard]] static bool is_item(const Line& line) { return line.text == "-" || line.text.starts_with("- "); }

  Result<Json> object_at(std::size_t indent, int depth) {
    if (depth > kMostNested) return fault(lines_[at_], "is nested too deep");
    Json object = Json::object();
    while (at_ < lines_.size() && lines_[at_].indent == indent && !is_item(lines_[at_])) {
      const Line line = lines_[at_];
      const std::size_t colon = colon_in(line.text);
      if (colon == std::string_view::npos) return fault(line, "is no name with a colon and a value");
      const std::string name = valid_text(unquoted(line.text.substr(0, colon)));
      if (object.contains(name)) return fault(line, "names what stands there already");
      const std::size_t value = line.text.find_first_not_of(kBlank, colon + 1);
      ++at_;
      if (value != std::string_view::npos) {
        TRIMTAB_TRY(object[name], value_of(line, line.text.substr(value)));
      } else {
        TRIMTAB_TRY(object[name], below(indent, depth));
      }
    }
    return object;
  }

  // What is indented further; a list may be as far as its name.
  Result<Json> below(std::size_t indent, int depth) {
    if (at_ == lines_.size()) return Json(nullptr);
    const Line& next = lines_[at_];
    if (is_item(next) && next.indent >= indent) return list_at(next.indent);
    if (next.indent <= indent) return Json(nullptr);
    return object_at(next.indent, depth + 1);
  }

  Result<Json> list_at(std::size_t indent) {
    Json list = Json::array();
    while (at_ < lines_.size() && lines_[at_].indent == indent && is_item(lines_[at_])) {
      const Line line = lines_[at_++];
      const std::size_t value = line.text.find_first_not_of(kBlank, 1);
      if (value == std::string_view::npos) return fault(line, "is an item without a value");
      TRIMTAB_TRY(Json item, value_of(line, line.text.substr(value)));
      list.push_back(std::move(item));
    }
    return list;
  }

  Result<Json> value_of(const Line& line, std::string_view text) {
    constexpr std::string_view kUnread = "&*!|>%@`";
    if (kUnread.find(text.front()) != std::string_view::npos) {
      return fault(line, "has a value that is not read: an anchor, a tag or a text of several lines");
    }
    constexpr std::string_view kFlow = "{[\"'";
    if (kFlow.find(text.front()) == std::string_view::npos) return yaml_scalar(text);
    const auto flows = parse_yaml_flows(text, source_);
    if (!flows.ok() || flows->size() != 1) return fault(line, "has a value that does not end in its line");
    return flows->front();
  }

  // Of "name: value" and "name:".
  static std::size_t colon_in(std::string_view text) {
    for (std::size_t at = text.find(':'); at != std::string_view::npos; at = text.find(':', at + 1)) {
      if (at > 0 && (at + 1 == text.size() || kBlank.find(text[at + 1]) != std::string_view::npos)) return at;
    }
    return std::string_view::npos;
  }

  static std::string_view unquoted(std::string_view name) {
    name = name.substr(0, name.find_last_not_of(kBlank) + 1);
    const bool quoted = name.size() > 1 && (name.front() == '"' || name.front() == '\'') && name.back() == name.front();
    return quoted ? name.substr(1, name.size() - 2) : name;
  }

  std::vector<Line> lines_;
  std::string source_;
  std::size_t at_ = 0;
};

}  // namespace

Result<Json> parse_yaml_blocks(std::string_view text, std::string_view source) {
  return BlockReader(lines_of(text), source).whole();
}

Result<Json> parse_json_or_yaml(std::string_view text, std::string_view source) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const bool json = begin != std::string_view::npos && text[begin] == '{';
  TRIMTAB_TRY(Json tree, json ? parse_json_text(text, source) : parse_yaml_blocks(text, source));
  if (!tree.is_object()) return bad_input(std::string(source) + ": expected an object");
  return tree;
}

}  // namespace trimtab

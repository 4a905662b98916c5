#include "published/nccl_tests_text.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "documents/json_document.hpp"

namespace trimtab::published {

namespace {

using Words = std::vector<std::string_view>;

// The word behind these; empty: they are not there.
std::string_view behind(const Words& words, std::initializer_list<std::string_view> name) {
  const auto found = std::search(words.begin(), words.end(), name.begin(), name.end());
  const auto place = found - words.begin() + std::ssize(name);
  return found == words.end() || place >= std::ssize(words) ? "" : words[static_cast<std::size_t>(place)];
}

// Columns of a row, by the heading above it.
struct Columns {
  std::size_t size = 0, type = 0;
  std::optional<std::size_t> redop;
  std::vector<std::size_t> times;  // out of place, in place
  std::size_t count = 0;

  static std::optional<Columns> of(Words words) {
    if (!words.empty() && words.front() == "#") words.erase(words.begin());
    Columns columns;
    columns.count = words.size();
    bool size = false;
    bool type = false;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "size") columns.size = i, size = true;
      if (words[i] == "type") columns.type = i, type = true;
      if (words[i] == "redop") columns.redop = i;
      if (words[i] == "time") columns.times.push_back(i);
    }
    if (!size || !type || columns.times.empty() || columns.times.size() > 2) return std::nullopt;
    return columns;
  }
};

class Reader {
 public:
  Reader(const std::string& source, std::string_view name) : source_(source) {
    document_ = {
        {"version", 3},
        {"env", Json::array()},
        {"config",
         {{"nthreads", 1}, {"ngpus", 1}, {"aggregated_iterations", 1}, {"graph", 0}, {"devices", Json::array()}}},
        {"results", Json::array()}};
    document_["args"] = Json::array({std::string(name) + "_perf"});
  }

  Status read(std::string_view line) {
    ++number_;
    const Words words = blank_parted(line);
    if (words.empty()) return {};
    if (words.front().starts_with('#')) {
      remark(line, words);
      return {};
    }
    // Others print beside: a launcher's warnings, NCCL's log.
    if (!parse_number<std::int64_t>(words.front())) return {};
    return row(words);
  }

  [[nodiscard]] std::string document() const { return dump(document_); }

 private:
  void remark(std::string_view line, const Words& words) {
    if (const auto columns = Columns::of(words)) columns_ = *columns;
    if (const auto program = behind(words, {"starting:"}); program.find("_perf") != std::string_view::npos) {
      document_["args"] = Json::array({std::string(program)});
    }
    if (const auto count = parse_number<std::int64_t>(behind(words, {"agg", "iters:"}))) {
      document_["config"]["aggregated_iterations"] = *count;
    }
    if (const auto graph = parse_number<std::int64_t>(behind(words, {"graph:"}))) document_["config"]["graph"] = *graph;
    if (const auto count = parse_number<std::int64_t>(behind(words, {"bounds", "values", ":"}))) {
      document_["out_of_bounds"] = {{"count", *count}};
    }
    for (const std::string_view word : words) {
      constexpr std::string_view kLibrary = "nccl-library=";
      if (!word.starts_with(kLibrary)) continue;
      if (const auto code = parse_number<std::int64_t>(word.substr(kLibrary.size()))) document_["nccl_version"] = *code;
    }
    if (words.size() > 2 && words[1] == "Rank") device(line, words);
  }

  // "#  Rank  0 Group  0 Pid 204199 on  node1 device  0 [0009:01:00] NVIDIA GH200 120GB", older ones without the group.
  void device(std::string_view line, const Words& words) {
    const std::size_t bracket = line.rfind(']');
    const std::string_view host = behind(words, {"on"});
    if (bracket == std::string_view::npos || host.empty()) return;
    std::string model;
    for (const std::string_view word : blank_parted(line.substr(bracket + 1))) {
      model += (model.empty() ? "" : " ") + std::string(word);
    }
    const auto group = parse_number<std::int64_t>(behind(words, {"Group"}));
    document_["config"]["devices"].push_back(
        {{"group", group.value_or(0)}, {"hostname", std::string(host)}, {"device_info", model}});
  }

  Status row(const Words& words) {
    if (!columns_) return fail("expected the heading (# size count type ...) before the first row");
    if (words.size() < columns_->count) {
      return fail("expected " + std::to_string(columns_->count) + " columns as in the heading, found " +
                  std::to_string(words.size()));
    }
    Json row{{"size", *parse_number<std::int64_t>(words[columns_->size])},
             {"type", std::string(words[columns_->type])},
             {"redop", columns_->redop ? std::string(words[*columns_->redop]) : "none"}};
    constexpr std::array<const char*, 2> kPlaces{"out_of_place", "in_place"};
    for (std::size_t i = 0; i < columns_->times.size(); ++i) {
      const std::size_t at = columns_->times[i];
      const auto time = parse_number<double>(words[at]);
      if (!time) continue;  // N/A: a place that this collective does not have
      Json result{{"time", *time}};
      const std::string_view wrong = at + 3 < words.size() ? words[at + 3] : "";
      if (const auto count = parse_number<double>(wrong)) result["nwrong"] = *count;
      row[kPlaces[i]] = result;
    }
    document_["results"].push_back(row);
    return {};
  }

  [[nodiscard]] Error fail(const std::string& what) const {
    return bad_input(source_ + ":" + std::to_string(number_) + ": " + what);
  }

  const std::string& source_;
  Json document_;
  std::optional<Columns> columns_;
  std::int64_t number_ = 0;
};

}  // namespace

bool is_nccl_tests_text(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '#' && !text.substr(begin).starts_with("#!");
}

Result<std::string> nccl_tests_document(std::string_view text, const std::string& source, std::string_view name) {
  constexpr std::array<std::string_view, 7> kPrograms{"all_reduce", "all_gather", "reduce_scatter", "alltoall",
                                                      "broadcast",  "sendrecv",   "reduce"};
  const auto* program =
      std::ranges::find_if(kPrograms, [&](std::string_view one) { return name.find(one) != std::string_view::npos; });
  Reader reader(source, program == kPrograms.end() ? "unknown" : *program);
  while (!text.empty()) TRIMTAB_TRY_STATUS(reader.read(take_line(text)));
  return reader.document();
}

}  // namespace trimtab::published

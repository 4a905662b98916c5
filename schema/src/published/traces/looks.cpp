#include "published/traces/looks.hpp"

#include <algorithm>
#include <optional>

#include "base/text_parts.hpp"
#include "documents/json_document.hpp"

namespace trimtab::published {

namespace {

using namespace std::string_view_literals;

struct Beginning {
  std::string_view bytes;
  const char* look;
};
constexpr Beginning kBeginnings[] = {
    {"\xff\xfe"sv, "text in UTF-16 (a byte order mark at byte 0); save it as UTF-8"},
    {"\xfe\xff"sv, "text in UTF-16 (a byte order mark at byte 0); save it as UTF-8"},
    {"#!"sv, "a script; give the trace that it writes"},
    {"\x7f"
     "ELF"sv,
     "a program; give the trace that it writes"},
    {"PK\x03\x04"sv, "a zip archive, as torch.save() and browsers write it; unpack it, and give the trace in it"},
    {"\x1f\x8b"sv, "gzip once more; unpack it once"},
    {"BZh"sv, "a bzip2 archive; unpack it"},
    {"\xfd"
     "7zXZ"sv,
     "an xz archive; unpack it"},
    {"\x28\xb5\x2f\xfd"sv, "a zstd archive; unpack it"},
    {"---"sv, "YAML"},
    {"<"sv, "HTML or XML"},
    {"\x80"sv, "a Python pickle, as torch.cuda.memory._dump_snapshot() writes it: it has no times of kernels"},
};

bool ends_in(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [name](std::string_view ending) { return name.ends_with(ending); });
}

bool has_control_bytes(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t'; });
}

// "key: value" or "key:", and neither a brace nor a quote before.
bool is_yaml(std::string_view line) {
  const std::size_t colon = line.ends_with(':') ? line.size() - 1 : line.find(": ");
  return line.find_first_of("{[\"'") > colon && colon != std::string_view::npos;
}

bool has(const ChromeTrace& trace, std::string_view member) {
  return std::ranges::find(trace.members, member) != trace.members.end();
}

}  // namespace

std::string look_of_bytes(std::string_view begin, std::string_view name) {
  if (ends_in(name, {".nsys-rep", ".qdrep", ".qdstrm"})) {
    return "a report of Nsight Systems; export it: nsys export --type sqlite " + std::string(name);
  }
  if (ends_in(name, {".py", ".sh"})) return "a script; give the trace that it writes";
  if (begin.empty()) return "an empty file; did the profiler end before it wrote?";
  for (const Beginning& one : kBeginnings) {
    if (begin.starts_with(one.bytes)) return one.look;
  }
  if (begin.starts_with("\xef\xbb\xbf")) begin.remove_prefix(3);
  const std::size_t first = begin.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "blank; did the profiler end before it wrote?";
  if (begin[first] == '{' || begin[first] == '[') return "";
  if (has_control_bytes(begin)) {
    return ends_in(name, {".et", ".chakra"})
               ? "an execution trace of Chakra (protobuf), which holds no times; give the trace of "
                 "torch.profiler.profile() that was recorded beside it"
               : "a binary file of another program";
  }
  const std::string_view line = begin.substr(first, begin.find('\n', first) - first);
  return (is_yaml(line) ? "YAML, beginning " : "text, beginning ") + quoted_text(line);
}

std::string look_of_json(const ChromeTrace& trace, const std::vector<std::string>& categories) {
  if (has(trace, "nodes") && has(trace, "schema")) {
    return "an execution trace of PyTorch (Chakra): operators and their order, and no times; give the trace of "
           "torch.profiler.profile() that was recorded beside it (export_chrome_trace()), which has them";
  }
  if (trace.has_events && trace.events == 0) return "a chrome trace without events; was the profiler ever in a step?";
  if (trace.has_events) {
    return "a chrome trace of another program: none of its " + std::to_string(trace.events) +
           " events is an operator, a step or a kernel of PyTorch Profiler" +
           (categories.empty() ? "" : " (categories: " + joined(categories, ", ", quoted_text) + ")");
  }
  if (trace.members.empty()) return "JSON that is no object with \"traceEvents\"";
  return "another JSON document, with " + joined(trace.members, ", ", quoted_text);
}

}  // namespace trimtab::published

#include "documents/look_of_bytes.hpp"

#include <algorithm>
#include <initializer_list>

#include "documents/json_document.hpp"

namespace trimtab {

namespace {

using namespace std::string_view_literals;

struct Beginning {
  std::string_view bytes;
  const char* look;
};
constexpr Beginning kKnownBytes[] = {
    {"\xff\xfe"sv, "text in UTF-16 (a byte order mark at byte 0); save it as UTF-8"},
    {"\xfe\xff"sv, "text in UTF-16 (a byte order mark at byte 0); save it as UTF-8"},
    {"#!"sv, "a script; give the file that it writes"},
    {"\x7f"
     "ELF"sv,
     "a program; give the file that it writes"},
    {"PK\x03\x04"sv, "a zip archive, as torch.save() and browsers write it; unpack it, and give the file in it"},
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

}  // namespace

std::string look_of_bytes(std::string_view begin, std::string_view name) {
  if (ends_in(name, {".nsys-rep", ".qdrep", ".qdstrm"})) {
    return "a report of Nsight Systems; export it: nsys export --type sqlite " + std::string(name);
  }
  if (ends_in(name, {".py", ".sh"})) return "a script; give the file that it writes";
  if (begin.empty()) return "an empty file; did its program end before it wrote?";
  for (const Beginning& one : kKnownBytes) {
    if (begin.starts_with(one.bytes)) return one.look;
  }
  if (begin.starts_with("\xef\xbb\xbf")) begin.remove_prefix(3);
  const std::size_t first = begin.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "blank; did its program end before it wrote?";
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

}  // namespace trimtab

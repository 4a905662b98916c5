// Published profiles. An input is a format's name and its files:
//   FORMAT
//   ==== NAME
//   its text

#include <string_view>
#include <vector>

#include "schema/published.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

constexpr std::string_view kFileMark = "==== ";
constexpr std::size_t kMostFiles = 16;

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// Text as it stands, up to the next file's mark.
std::string_view take_file(std::string_view& text) {
  const std::size_t end = text.find("\n" + std::string(kFileMark));
  const std::string_view file = text.substr(0, end == std::string_view::npos ? text.size() : end + 1);
  text.remove_prefix(file.size());
  return file;
}

bool usable(std::string_view name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !name.empty() && name.size() < 100 && name.front() != '.' &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::ScratchDirectory directory;
  directory.clear();
  const std::string input = fuzz::text_of(data, size);
  std::string_view text = input;
  const std::string format(take_line(text));
  std::vector<std::string> paths;
  while (text.starts_with(kFileMark) && paths.size() < kMostFiles) {
    const std::string name(take_line(text).substr(kFileMark.size()));
    const std::string_view file = take_file(text);
    if (!usable(name)) return 0;
    directory.write(name, file);
    paths.push_back(directory.path() + "/" + name);
  }
  if (format != "nccl-tests") paths = {directory.path()};
  (void)fuzz::judge(read_published(format, paths));
  return 0;
}

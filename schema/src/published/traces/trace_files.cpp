#include "published/traces/trace_files.hpp"

#include <algorithm>
#include <filesystem>

#include "base/text_parts.hpp"
#include "published/text_file.hpp"

namespace trimtab::published {

namespace {

constexpr std::size_t kMostFiles = 4096;

}  // namespace

Result<std::vector<std::string>> trace_files(const std::vector<std::string>& paths,
                                             const std::vector<std::string_view>& endings, const std::string& what) {
  const auto may_be_one = [&endings](const std::string& name) {
    return std::ranges::any_of(endings, [&name](std::string_view ending) { return name.ends_with(ending); });
  };
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code failure;
    if (!std::filesystem::is_directory(path, failure)) {
      files.push_back(path);
      continue;
    }
    TRIMTAB_TRY(const std::vector<std::string> names, names_in(path));
    const std::size_t before = files.size();
    for (const std::string& name : names) {
      if (may_be_one(name)) files.push_back((std::filesystem::path(path) / name).string());
    }
    if (files.size() == before) {
      return bad_input(path + ": expected " + what + " (" + joined(endings) + "), found " + none_among(names));
    }
  }
  if (files.size() > kMostFiles) {
    return bad_input("expected at most " + std::to_string(kMostFiles) + " " + what + ", found " +
                     std::to_string(files.size()));
  }
  return files;
}

}  // namespace trimtab::published

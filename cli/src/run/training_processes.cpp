#include "run/training_processes.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "arguments.hpp"
#include "files.hpp"

namespace trimtab::cli {

namespace {

constexpr std::array<std::string_view, 3> kTrainingLibraries{"/libtorch", "/libcuda.so", "/libnccl"};

bool belongs_to(const std::string& path, uid_t owner) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && info.st_uid == owner;
}

std::string content(const std::string& path) {
  return read_file(path).ok() ? read_file(path).value() : "";
}

}  // namespace

bool has_torch(std::string_view maps) {
  return std::ranges::any_of(kTrainingLibraries,
                             [&](std::string_view library) { return maps.find(library) != std::string_view::npos; });
}

bool has_library(std::string_view maps) {
  return maps.find("/libtrimtab-inject.so") != std::string_view::npos;
}

std::vector<std::string> texts_of(std::string_view bytes) {
  std::vector<std::string> texts;
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\0'), bytes.size());
    texts.emplace_back(bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  return texts;
}

Variables variables_of(std::string_view environ) {
  Variables variables;
  for (const std::string& text : texts_of(environ)) {
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::vector<TrainingProcess> unwatched_processes(uid_t owner, const std::string& proc) {
  std::vector<TrainingProcess> found;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(proc, failure)) {
    const auto pid = parse_number<pid_t>(entry.path().filename().string());
    const std::string place = entry.path().string();
    if (!pid || !belongs_to(place, owner)) continue;
    const std::string maps = content(place + "/maps");
    if (!has_torch(maps) || has_library(maps)) continue;
    found.push_back(
        {*pid, texts_of(content(place + "/cmdline")), rank_facts(variables_of(content(place + "/environ")))});
  }
  std::ranges::sort(found, {}, &TrainingProcess::pid);
  return found;
}

}  // namespace trimtab::cli

#include "processes/program_search.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace trimtab::agent {

namespace {

bool is_program(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

Result<std::string> find_program(const std::string& name, const std::string& path,
                                 const std::string& working_directory) {
  const std::filesystem::path directory(working_directory);
  if (name.find('/') != std::string::npos) {
    const std::string file = (directory / name).string();
    if (is_program(file)) return file;
    return unavailable("couldn't run '" + name + "': there is no executable file " + file);
  }
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find(':', begin), path.size());
    const std::string file = (directory / path.substr(begin, end - begin) / name).string();
    if (!name.empty() && is_program(file)) return file;
    begin = end + 1;
  }
  return unavailable("couldn't run '" + name + "': there is no such program in PATH (" + path +
                     "); the working directory is " + working_directory);
}

}  // namespace trimtab::agent

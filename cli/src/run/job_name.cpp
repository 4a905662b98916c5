#include "run/job_name.hpp"

#include <algorithm>
#include <array>

namespace trimtab::cli {

namespace {

constexpr std::size_t kLongest = 64;
constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

// `-m` of these starts the script that follows.
constexpr std::array<std::string_view, 6> kLaunchers{
    "torch.distributed.run",     "torch.distributed.launch",           "accelerate.commands.launch",
    "deepspeed.launcher.runner", "accelerate.commands.accelerate_cli", "trimtab.slot"};

std::string file_of(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

std::string without(const std::string& name, std::string_view ending) {
  return name.size() > ending.size() && name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : "";
}

// The name that this word gives; empty = none.
std::string script_name(const std::string& word, const std::string& before) {
  if (before == "-m" || before == "--module") {
    const bool launches = std::ranges::find(kLaunchers, word) != kLaunchers.end();
    return launches || word.starts_with('-') ? "" : word;
  }
  const std::string file = word.find('=') == std::string::npos ? file_of(word) : "";
  for (const char* ending : {".py", ".sh", ".bash"}) {
    if (std::string name = without(file, ending); !name.empty()) return name;
  }
  return "";
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongest && name.find_first_not_of(kAllowed) == std::string_view::npos &&
         name.find_first_not_of('.') != std::string_view::npos;
}

std::string valid(std::string name) {
  for (char& letter : name) {
    if (kAllowed.find(letter) == std::string_view::npos) letter = '-';
  }
  name.resize(std::min(name.size(), kLongest));
  return is_name(name) ? name : "job";
}

}  // namespace

std::string job_name_of(const std::vector<std::string>& command) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string name = script_name(command[i], i > 0 ? command[i - 1] : "");
    if (!name.empty()) return valid(name);
  }
  return valid(file_of(command.front()));
}

Status check_job_name(const std::string& name) {
  if (is_name(name)) return {};
  return bad_input(
      "--name: expected 1 to 64 letters, digits, dots, dashes and underscores, not only dots, but found '" + name +
      "'");
}

std::string free_job_name(const std::string& wanted, const std::set<std::string>& taken) {
  std::string name = wanted;
  for (int number = 2; taken.contains(name); ++number) {
    const std::string suffix = "-" + std::to_string(number);
    name = wanted.substr(0, kLongest - suffix.size()) + suffix;
  }
  return name;
}

}  // namespace trimtab::cli

#include "gpu/driver_files.hpp"

#include <algorithm>
#include <cctype>

#include "proc_text.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

const std::string kDriver = "proc/driver/nvidia/";

bool is_version(std::string_view word) {
  return word.find('.') != std::string_view::npos &&
         std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
}

bool is_number(const std::string& name) {
  return std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// "nvidia-cuda-mps-control" and "-server": the kernel cuts a name after 15 bytes.
bool runs(const std::string& root) {
  for (const std::string& process : list_system_directory(root, "proc")) {
    if (!is_number(process)) continue;
    if (trimmed(system_text(root, "proc/" + process + "/comm")) == "nvidia-cuda-mps") return true;
  }
  return false;
}

}  // namespace

std::string parse_driver_version(std::string_view text) {
  for (const std::string_view word : words(parse_line(text, "NVRM version"))) {
    if (is_version(word)) return std::string(word);
  }
  return "";
}

std::optional<bool> parse_admin_only(std::string_view text) {
  const auto value = parse_integer(parse_line(text, "RmProfilingAdminOnly"));
  return value ? std::optional(*value != 0) : std::nullopt;
}

std::string driver_version(const std::string& root) {
  return parse_driver_version(system_text(root, kDriver + "version"));
}

std::vector<std::string> driver_models(const std::string& root) {
  std::vector<std::string> models;
  for (const std::string& bus : list_system_directory(root, kDriver + "gpus")) {
    const auto text = read_system_file(root, kDriver + "gpus/" + bus + "/information");
    if (text.ok()) models.emplace_back(parse_line(*text, "Model"));
  }
  return models;
}

std::vector<std::string> gpu_device_files(const std::string& root) {
  std::vector<std::string> files;
  for (const std::string& name : list_system_directory(root, "dev")) {
    if (name.starts_with("nvidia") && parse_integer(name.substr(6)).value_or(-1) >= 0) files.push_back("dev/" + name);
  }
  return files;
}

MpsDaemon find_mps(const std::string& root, const std::map<std::string, std::string>& environment) {
  MpsDaemon mps;
  const auto chosen = environment.find("CUDA_MPS_PIPE_DIRECTORY");
  mps.pipe_directory = chosen == environment.end() || chosen->second.empty() ? "/tmp/nvidia-mps" : chosen->second;
  mps.has_pipe = system_path_exists(root, mps.pipe_directory + "/control");
  mps.seen = runs(root);
  return mps;
}

}  // namespace trimtab::host

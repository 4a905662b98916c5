#include "gpu/mps_daemon.hpp"

#include <algorithm>
#include <cctype>

#include "system_file.hpp"
#include "text_fields.hpp"

namespace trimtab::host {

namespace {

bool is_number(const std::string& name) {
  return std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// "nvidia-cuda-mps-control" and "-server": the kernel cuts a name after 15 bytes.
bool runs(const std::string& root) {
  for (const std::string& process : list_system_directory(root, "proc")) {
    if (!is_number(process)) continue;
    const auto name = read_system_file(root, "proc/" + process + "/comm");
    if (name.ok() && trim(*name) == "nvidia-cuda-mps") return true;
  }
  return false;
}

}  // namespace

MpsDaemon find_mps(const std::string& root, const std::map<std::string, std::string>& environment) {
  MpsDaemon mps;
  const auto chosen = environment.find("CUDA_MPS_PIPE_DIRECTORY");
  mps.pipe_directory = chosen == environment.end() || chosen->second.empty() ? "/tmp/nvidia-mps" : chosen->second;
  mps.has_pipe = system_path_exists(root, mps.pipe_directory + "/control");
  mps.seen = runs(root);
  return mps;
}

}  // namespace trimtab::host

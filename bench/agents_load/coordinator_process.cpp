#include "coordinator_process.hpp"

#include <filesystem>
#include <fstream>

namespace trimtab::load {

Status CoordinatorProcess::start() {
  const std::string port_file = state_ + "/port";
  std::filesystem::remove(port_file);
  const std::string address = "127.0.0.1:" + std::to_string(port_);
  std::vector<std::string> words{program_,      "--listen", address,       "--state", state_,
                                 "--port-file", port_file,  "--log-level", "error"};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  return process_.start(std::move(words), [&] {
    std::ifstream file(port_file);
    return static_cast<bool>(file >> port_);
  });
}

}  // namespace trimtab::load

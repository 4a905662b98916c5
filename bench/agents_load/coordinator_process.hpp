#pragma once

// A real coordinator on a state directory, which may be ended and started again.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "daemon_process.hpp"

namespace trimtab::load {

class CoordinatorProcess {
 public:
  // `arguments` are the program's own; address, state and log level are given by this.
  CoordinatorProcess(std::string program, std::string state, std::vector<std::string> arguments)
      : program_(std::move(program)), state_(std::move(state)), arguments_(std::move(arguments)) {}

  // Waits until it listens; the first time on any free port, then on the same one.
  [[nodiscard]] Status start();
  void signal(int number) const { process_.signal(number); }
  [[nodiscard]] Status end(int number) { return process_.end(number); }
  [[nodiscard]] ProcessUse use() const { return process_.use(); }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  std::string program_;
  std::string state_;
  std::vector<std::string> arguments_;
  std::uint16_t port_ = 0;
  DaemonProcess process_;
};

}  // namespace trimtab::load

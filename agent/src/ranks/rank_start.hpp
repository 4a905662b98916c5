#pragma once

// One rank to start: a plain value.

#include <cstdint>
#include <string>
#include <vector>

#include "ranks/rank_command.hpp"
#include "ranks/rank_identity.hpp"

namespace trimtab::agent {

struct RankStart {
  RankIdentity id;
  std::uint64_t launch = 0;
  std::uint64_t epoch = 0;
  std::vector<std::string> arguments;
  Environment environment;
  std::string working_directory;
  std::string log_path;
  bool awaits_slot = false;  // not forked here: the first slot that asks for it becomes it
};

}  // namespace trimtab::agent

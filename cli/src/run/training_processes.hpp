#pragma once

// Which processes of this user look like training, and which of them nobody watches. Reads /proc alone.

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "run/launch_facts.hpp"

namespace trimtab::cli {

// By the text of /proc/PID/maps. Pure.
[[nodiscard]] bool has_torch(std::string_view maps);
[[nodiscard]] bool has_library(std::string_view maps);
// Of /proc/PID/environ and /proc/PID/cmdline: texts that end with a zero byte each. Pure.
[[nodiscard]] std::vector<std::string> texts_of(std::string_view bytes);
[[nodiscard]] Variables variables_of(std::string_view environ);

struct TrainingProcess {
  pid_t pid = 0;
  std::vector<std::string> command;
  RankFacts rank;
};

// Those of user `owner` that have PyTorch, CUDA's driver or NCCL loaded, and not libtrimtab-inject.so.
[[nodiscard]] std::vector<TrainingProcess> unwatched_processes(uid_t owner, const std::string& proc = "/proc");

}  // namespace trimtab::cli

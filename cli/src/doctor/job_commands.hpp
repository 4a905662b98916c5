#pragma once

// What `trimtab doctor` says of the commands in a job file: whether what they start is there, and which interpreter it
// is that needs PyTorch.

#include "doctor/checks.hpp"
#include "schema/job.hpp"

namespace trimtab::cli {

// Whether train's program and script are there, as the ranks look for them: from working_directory, in the job's PATH.
// And whether Linux starts the job's commands at all.
[[nodiscard]] Check check_train(const Job& job);

struct Interpreter {
  std::string name = "python3";
  bool named = false;  // by one of the job's commands; else it is a guess
};
// That of train; where a shell script or another program chooses it, that of benchmark or describe. Pure.
[[nodiscard]] Interpreter interpreter_of(const Job& job);

// How an interpreter is asked as the job's ranks run it: in the job's folder and environment. Pure.
[[nodiscard]] std::vector<std::string> as_rank(const Job& job, const std::vector<std::string>& command);

}  // namespace trimtab::cli

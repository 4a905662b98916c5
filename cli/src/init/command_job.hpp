#pragma once

// A command that somebody types to train, made a job: what stands behind it on this machine is looked at.

#include "init/job_draft.hpp"

namespace trimtab::cli {

// `out`: where the job file will lie; empty: nowhere, and its paths are whole. Errors begin with the verb.
[[nodiscard]] Result<JobDraft> job_of_command(const std::string& verb, const std::vector<std::string>& given,
                                              const std::string& out, const DraftWishes& wishes);

// Where the plan of a job file lies: beside it.
[[nodiscard]] std::string plan_path(const std::string& job_path);
// Writes the job file and, where the command says one, the plan. A file that is there stays, and nothing is written:
// `who` says so, and `remedy` what to do.
[[nodiscard]] Status write_draft(const JobDraft& draft, const std::string& job_path, const std::string& who,
                                 const std::string& remedy = "");

}  // namespace trimtab::cli

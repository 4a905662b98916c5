#pragma once

// What is run for a job: argument vectors with their placeholders filled in, and the environment (docs/protocols.md,
// "Environment of a rank"). Pure.

#include "schema/job.hpp"

namespace trimtab::agent {

// {rank}, {plan}, ... in a job's argument vectors (docs/protocols.md). Pure.
using Placeholders = std::map<std::string, std::string>;

// A name in braces that is not known is an error; braces around anything else (JSON text) are left alone. So are an
// argument that becomes longer than Linux lets it be, and more of them than that (schema/settings/job_programs.hpp):
// no more memory is taken. `of_target`: what kTargetArguments stands for; nothing: it is an argument as any other.
[[nodiscard]] Result<std::vector<std::string>> expand(const std::vector<std::string>& arguments,
                                                      const Placeholders& values,
                                                      const std::vector<std::string>* of_target = nullptr);

using Environment = std::map<std::string, std::string>;

struct RankLaunch {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::string node;  // the agent's
  std::string plan_path;
  std::string rendezvous;
  std::string requests_path;  // of a benchmark
  std::string scratch;
  Bytes memory_limit = 0;
  std::int64_t steps = 0;
  std::uint64_t epoch = 0;
  std::uint64_t launch = 0;  // 0 = none: a benchmark
  std::string variant;
  std::string nccl_table;     // path; empty = NCCL chooses by itself
  std::string nccl_table_id;  // as 16 hexadecimal digits
  std::string checkpoint;     // of a trial: the copy
  std::string target_config;  // path of the plan as the job's target reads it; empty = arguments say all, or no target
  std::vector<std::string> target_arguments;
  Environment target_environment;
  std::string nodes;  // of a submitted launch: its nodes' names, with commas between them
  std::uint32_t node_count = 0;
  std::uint32_t ranks_per_node = 0;  // 0 = not the same on each
};

// Where the agent is, for its ranks.
struct AgentPlaces {
  std::string socket;
  std::string inject_library;  // empty = there is none
  std::string kill_switch;     // path
  std::string node;
};

// All placeholders of docs/protocols.md; those without a value ({plan} of a benchmark) are left out, so that using one
// is an error.
[[nodiscard]] Placeholders placeholders(const Job& job, const RankLaunch& launch);

// An argument that is this placeholder and nothing else becomes the target's arguments.
inline constexpr std::string_view kTargetArguments = "{target_arguments}";

// The agent's own environment, the job's over it, what its target demands with the plan over that, ours over all.
[[nodiscard]] Environment rank_environment(Environment base, const Job& job, const RankLaunch& launch,
                                           const AgentPlaces& places);
// Of the process that submits a launch: who it is, and nothing of a rank.
[[nodiscard]] Environment launcher_environment(Environment base, const Job& job, const RankLaunch& launch,
                                               const AgentPlaces& places);
// For describe and benchmark: everything of Trimtab is off.
[[nodiscard]] Environment command_environment(Environment base, const Job& job);

// Where rank 0 is: what launchers call MASTER_ADDR.
[[nodiscard]] std::string rendezvous_host(const std::string& rendezvous);

// A rendezvous is an address that all ranks share; a mere name becomes a file in the scratch, for jobs on one node.
[[nodiscard]] std::string rendezvous_address(const std::string& rendezvous, const std::string& scratch);

}  // namespace trimtab::agent

#include "ranks/rank_command.hpp"

#include "base/utf8.hpp"
#include "schema/nearest.hpp"
#include "schema/settings/job_programs.hpp"

namespace trimtab::agent {

namespace {

Environment with_job(Environment base, const Job& job) {
  std::erase_if(base, [](const auto& entry) { return entry.first.starts_with("TRIMTAB"); });
  for (const auto& [name, value] : job.environment) base[name] = value;
  return base;
}

// The job's environment may be that of a rank: what it says of another launch is not this one's. A job without a plan
// has none to name.
void set_or_leave_out(Environment& environment, const std::string& name, const std::string& value) {
  environment.erase(name);
  if (!value.empty()) environment[name] = value;
}

// A profiler plugin of the job's own is called behind ours; a tuner plugin of its own keeps its place, for there can be
// one alone.
void set_nccl_plugins(Environment& environment, const RankLaunch& launch, const AgentPlaces& places) {
  const auto own = environment.find("NCCL_PROFILER_PLUGIN");
  if (own != environment.end() && !own->second.empty() && own->second != places.inject_library) {
    environment["TRIMTAB_NCCL_PROFILER_NEXT"] = own->second;
  }
  environment["NCCL_PROFILER_PLUGIN"] = places.inject_library;
  // What the timing of channels costs on the device cannot be seen from the process: a part of the time is enough.
  environment.try_emplace("TRIMTAB_NCCL_DETAIL", "sampled");
  if (launch.nccl_table.empty() || environment.contains("NCCL_TUNER_PLUGIN")) return;
  environment["NCCL_TUNER_PLUGIN"] = places.inject_library;
  environment["TRIMTAB_NCCL_TABLE"] = launch.nccl_table;
  environment["TRIMTAB_NCCL_TABLE_ID"] = launch.nccl_table_id;
}

}  // namespace

Placeholders placeholders(const Job& job, const RankLaunch& launch) {
  Placeholders values{{"rank", std::to_string(launch.rank)},
                      {"local_rank", std::to_string(launch.local_rank)},
                      {"world_size", std::to_string(job.world_size)},
                      {"node", launch.node},
                      {"rendezvous", launch.rendezvous},
                      {"scratch", launch.scratch},
                      {"memory_limit_bytes", std::to_string(launch.memory_limit)},
                      {"steps", std::to_string(launch.steps)}};
  if (!launch.rendezvous.empty()) values["master_addr"] = rendezvous_host(launch.rendezvous);
  if (!launch.plan_path.empty()) values["plan"] = launch.plan_path;
  if (!launch.requests_path.empty()) values["requests"] = launch.requests_path;
  if (!launch.checkpoint.empty()) values["checkpoint"] = launch.checkpoint;
  if (!launch.target_config.empty()) values["target_config"] = launch.target_config;
  if (launch.node_count > 0) {
    values["nodes"] = launch.nodes;
    values["node_count"] = std::to_string(launch.node_count);
    if (launch.ranks_per_node > 0) values["ranks_per_node"] = std::to_string(launch.ranks_per_node);
  }
  return values;
}

Environment launcher_environment(Environment base, const Job& job, const RankLaunch& launch,
                                 const AgentPlaces& places) {
  Environment environment = with_job(std::move(base), job);
  for (const auto& [name, value] : launch.target_environment) environment[name] = value;
  environment["TRIMTAB_SOCKET"] = places.socket;
  environment["TRIMTAB_KILL_SWITCH"] = places.kill_switch;
  environment["TRIMTAB_JOB"] = job.name;
  environment["TRIMTAB_WORLD_SIZE"] = std::to_string(job.world_size);
  set_or_leave_out(environment, "TRIMTAB_LAUNCH", launch.launch > 0 ? std::to_string(launch.launch) : "");
  set_or_leave_out(environment, "TRIMTAB_VARIANT", launch.variant);
  return environment;
}

Environment rank_environment(Environment base, const Job& job, const RankLaunch& launch, const AgentPlaces& places) {
  Environment environment = launcher_environment(std::move(base), job, launch, places);
  environment["TRIMTAB_RANK"] = std::to_string(launch.rank);
  environment["TRIMTAB_LOCAL_RANK"] = std::to_string(launch.local_rank);
  set_or_leave_out(environment, "TRIMTAB_PLAN", launch.plan_path);
  environment["TRIMTAB_EPOCH"] = std::to_string(launch.epoch);
  set_or_leave_out(environment, "TRIMTAB_TARGET_CONFIG", launch.target_config);
  if (!places.inject_library.empty()) {
    environment["TRIMTAB_LIBRARY"] = places.inject_library;
    environment["NVTX_INJECTION64_PATH"] = places.inject_library;
    // CUDA's driver loads one library alone; a job that brings its own keeps it.
    environment.try_emplace("CUDA_INJECTION64_PATH", places.inject_library);
    set_nccl_plugins(environment, launch, places);
  }
  return environment;
}

Environment command_environment(Environment base, const Job& job) {
  Environment environment = with_job(std::move(base), job);
  environment.insert_or_assign("TRIMTAB", std::string("0"));
  return environment;
}

std::string rendezvous_host(const std::string& rendezvous) {
  constexpr std::string_view kTcp = "tcp://";
  if (!rendezvous.starts_with(kTcp)) return "127.0.0.1";
  const std::string authority = rendezvous.substr(kTcp.size());
  const std::string host = authority.substr(0, authority.rfind(':'));
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

std::string rendezvous_address(const std::string& rendezvous, const std::string& scratch) {
  return rendezvous.find("://") != std::string::npos ? rendezvous : "file://" + scratch + "/rendezvous-" + rendezvous;
}

namespace {

constexpr const char* kNameCharacters = "abcdefghijklmnopqrstuvwxyz_";
constexpr std::size_t kNamed = 200;  // bytes of an argument in a message

Error unknown(const std::string& argument, const std::string& name, const Placeholders& values) {
  std::vector<std::string> known;
  for (const auto& [key, value] : values) known.push_back(key);
  const std::string hint =
      known.empty() ? "This command has none" : "Did you mean {" + nearest(first_of(name, kNamed), known) + "}?";
  return bad_input("the argument '" + first_of(argument, kNamed) + "' has the placeholder {" + first_of(name, kNamed) +
                   "}, which this command has no value for. " + hint);
}

Error too_long(const std::string& argument) {
  return bad_input(
      "the argument '" + first_of(argument, kNamed) + "', of " + std::to_string(argument.size()) +
      " bytes, has more than " + std::to_string(kLongestWord) +
      " with its placeholders filled in, and Linux starts no program with it. Put it into a file, and hand "
      "over the file's name");
}

// The name between the brace at `open` and the next closing one, or empty.
std::string name_at(const std::string& argument, std::size_t open) {
  const auto close = argument.find_first_not_of(kNameCharacters, open + 1);
  if (close == std::string::npos || argument[close] != '}') return {};
  return argument.substr(open + 1, close - open - 1);
}

Result<std::string> expand_one(const std::string& argument, const Placeholders& values) {
  std::string expanded;
  for (std::size_t i = 0; i < argument.size(); ++i) {
    const std::string name = argument[i] == '{' ? name_at(argument, i) : "";
    if (name.empty()) {
      expanded.push_back(argument[i]);
    } else {
      const auto found = values.find(name);
      if (found == values.end()) return unknown(argument, name, values);
      expanded += found->second;
      i += name.size() + 1;
    }
    if (expanded.size() > kLongestWord) return too_long(argument);
  }
  return expanded;
}

}  // namespace

Result<std::vector<std::string>> expand(const std::vector<std::string>& arguments, const Placeholders& values,
                                        const std::vector<std::string>* of_target) {
  std::vector<std::string> expanded;
  std::size_t bytes = 0;
  for (const auto& argument : arguments) {
    if (of_target != nullptr && argument == kTargetArguments) {
      expanded.insert(expanded.end(), of_target->begin(), of_target->end());
      continue;
    }
    TRIMTAB_TRY(std::string text, expand_one(argument, values));
    bytes += word_bytes(text.size());
    if (bytes > kMostWords) {
      return bad_input("the command's " + std::to_string(arguments.size()) + " arguments take more than " +
                       std::to_string(kMostWords) +
                       " bytes with their placeholders filled in, and Linux starts no program with them. Put what is "
                       "long into a file, and hand over the file's name");
    }
    expanded.push_back(std::move(text));
  }
  return expanded;
}

}  // namespace trimtab::agent

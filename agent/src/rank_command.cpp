#include "rank_command.hpp"

namespace trimtab::agent {

namespace {

Environment with_job(Environment base, const Job& job) {
  std::erase_if(base, [](const auto& entry) { return entry.first.starts_with("TRIMTAB"); });
  for (const auto& [name, value] : job.environment) base[name] = value;
  return base;
}

}  // namespace

Placeholders placeholders(const Job& job, const RankLaunch& launch) {
  Placeholders values{{"rank", std::to_string(launch.rank)},
                      {"local_rank", std::to_string(launch.local_rank)},
                      {"world_size", std::to_string(job.world_size)},
                      {"rendezvous", launch.rendezvous},
                      {"scratch", launch.scratch},
                      {"memory_limit_bytes", std::to_string(launch.memory_limit)},
                      {"steps", std::to_string(launch.steps)}};
  if (!launch.plan_path.empty()) values["plan"] = launch.plan_path;
  if (!launch.requests_path.empty()) values["requests"] = launch.requests_path;
  return values;
}

Environment rank_environment(Environment base, const Job& job, const RankLaunch& launch, const AgentPlaces& places) {
  Environment environment = with_job(std::move(base), job);
  environment["TRIMTAB_SOCKET"] = places.socket;
  environment["TRIMTAB_JOB"] = job.name;
  environment["TRIMTAB_RANK"] = std::to_string(launch.rank);
  environment["TRIMTAB_LOCAL_RANK"] = std::to_string(launch.local_rank);
  environment["TRIMTAB_WORLD_SIZE"] = std::to_string(job.world_size);
  environment["TRIMTAB_PLAN"] = launch.plan_path;
  environment["TRIMTAB_EPOCH"] = std::to_string(launch.epoch);
  if (!places.inject_library.empty()) {
    environment["TRIMTAB_LIBRARY"] = places.inject_library;
    environment["NVTX_INJECTION64_PATH"] = places.inject_library;
  }
  return environment;
}

Environment command_environment(Environment base, const Job& job) {
  Environment environment = with_job(std::move(base), job);
  environment.insert_or_assign("TRIMTAB", std::string("0"));
  return environment;
}

std::string rendezvous_address(const std::string& rendezvous, const std::string& scratch) {
  return rendezvous.find("://") != std::string::npos ? rendezvous : "file://" + scratch + "/rendezvous-" + rendezvous;
}

}  // namespace trimtab::agent

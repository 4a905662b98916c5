// The TOML files that people write: jobs, both daemons' settings, a site's policy, scenarios of the simulator.

#include "agent/configuration.hpp"
#include "base/check.hpp"
#include "coordinator/settings.hpp"
#include "coordinator/simulation.hpp"
#include "coordinator/site_policy.hpp"
#include "schema/job.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

void check_job(const std::string& text) {
  const auto parsed = parse_job_toml(text, "fuzz.toml", "/d");
  if (!fuzz::judge(parsed, fuzz::Repeats::kAll)) return;
  const std::string written = to_json(parsed->job);
  const auto again = parse_job(written, "fuzz.json");
  TRIMTAB_ASSERT(again.ok(), "a job that was read from TOML can be written as JSON and read");
  TRIMTAB_ASSERT(to_json(*again) == written, "writing and reading is a fixed point");
}

void check_agent(const std::string& text) {
  const auto chosen = agent::configure({}, agent::ConfigurationFile{"agent.toml", text}, {}, {});
  if (fuzz::judge(chosen, fuzz::Repeats::kAll))
    (void)fuzz::judge(agent::check_configuration(*chosen), fuzz::Repeats::kAll);
}

void check_coordinator(const std::string& text) {
  coordinator::Settings settings;
  const Status applied = coordinator::coordinator_settings().set_from_toml(settings, text, "coordinator.toml");
  if (fuzz::judge(applied, fuzz::Repeats::kAll))
    (void)fuzz::judge(coordinator::check_settings(settings), fuzz::Repeats::kAll);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  check_job(text);
  check_agent(text);
  check_coordinator(text);
  const auto site = coordinator::parse_site_policy(text, "site.toml");
  if (fuzz::judge(site, fuzz::Repeats::kAll)) (void)coordinator::describe(*site);
  (void)fuzz::judge(coordinator::parse_scenario(text, "scenario.toml"), fuzz::Repeats::kAll);
  return 0;
}

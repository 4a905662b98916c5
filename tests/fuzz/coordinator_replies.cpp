// What the command reads of what a coordinator or an agent answers, or has written: states, events, reports, metrics.
// What is understood is also shown.

#include "daemons/up_state.hpp"
#include "doctor/daemons.hpp"
#include "jobs/coordinator_client.hpp"
#include "jobs/live_text.hpp"
#include "jobs/status_text.hpp"
#include "report/report.hpp"
#include "schema/api/trace.hpp"
#include "target.hpp"

using namespace trimtab;
using namespace trimtab::cli;

namespace {

void show(const std::string& text) {
  if (const auto job = read_reply<api::Job>(text); fuzz::judge(job)) (void)describe(*job);
  if (const auto cluster = read_reply<api::ClusterStatus>(text); fuzz::judge(cluster)) (void)describe(*cluster);
  if (const auto trials = read_reply<api::Trials>(text); fuzz::judge(trials)) (void)describe(trials->trials);
  if (const auto live = read_reply<api::LiveJob>(text); fuzz::judge(live)) (void)describe(live->ranks);
  if (const auto audit = read_reply<api::Audit>(text); fuzz::judge(audit)) (void)describe(audit->entries);
  (void)fuzz::judge(read_reply<api::Events>(text));
  (void)fuzz::judge(read_reply<api::Trace>(text));
}

void show_report(const std::string& text) {
  const auto report = parse_report(text, "report.json");
  if (!fuzz::judge(report)) return;
  (void)report_text(*report);
  (void)report_html(*report);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  show(text);
  (void)fuzz::judge(parse_up_state(text, "up.json"));
  show_report(text);
  const auto page = parse_metric_page(text);
  (void)agent_checks(page);
  (void)coordinator_checks(page);
  return 0;
}

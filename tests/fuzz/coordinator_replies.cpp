// What the command reads of what a coordinator or an agent answers, or has written: states, events, reports, metrics.
// What is understood is also shown.

#include "daemons/up_state.hpp"
#include "doctor/daemons.hpp"
#include "jobs/audit_text.hpp"
#include "jobs/job_state.hpp"
#include "jobs/live_state.hpp"
#include "jobs/status_text.hpp"
#include "report/data.hpp"
#include "report/html.hpp"
#include "report/text.hpp"
#include "target.hpp"

using namespace trimtab;
using namespace trimtab::cli;

namespace {

template <typename T>
void show(const Result<T>& read) {
  if (fuzz::judge(read)) (void)describe(*read);
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
  show(parse_job_state(text));
  show(parse_trials(text));
  show(parse_cluster_state(text));
  show(parse_live_ranks(text));
  show(parse_audit(text));
  (void)fuzz::judge(parse_events(text));
  (void)fuzz::judge(parse_up_state(text, "up.json"));
  show_report(text);
  const auto page = parse_metric_page(text);
  (void)agent_checks(page);
  (void)coordinator_checks(page);
  return 0;
}

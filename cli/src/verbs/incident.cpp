// What somebody who is woken by a job has to know: `incident`.

#include <CLI/CLI.hpp>
#include <thread>

#include "files.hpp"
#include "jobs/incident.hpp"
#include "jobs/interrupt.hpp"
#include "jobs/session.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

constexpr int kLooks = 10;  // a second apart, until a step is made

struct Arguments {
  SessionFlags session;
  std::string job;
  std::string bundle;
  bool json = false;
};

// The job's latest document, and how many steps it made since the first one.
Status watch(const CoordinatorClient& client, Incident& incident) {
  const InterruptGuard guard;
  const std::int64_t first = incident.job.step;
  for (int look = 0; look < kLooks && incident.job.active && !InterruptGuard::interrupted(); ++look) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    TRIMTAB_TRY(incident.job, client.read<api::Job>(job_target(incident.job.name)));
    incident.steps = incident.job.step - first;
    incident.seconds += 1;
    if (incident.steps > 0) break;
  }
  return {};
}

// The latest entries of the job: pages come from the first one on.
Result<api::Audit> audit_of(const CoordinatorClient& client, const std::string& job) {
  api::Audit all;
  for (std::int64_t after = 0;;) {
    TRIMTAB_TRY(const auto page,
                client.read<api::Audit>("/v1/audit?after=" + std::to_string(after) + "&job=" + percent_encoded(job)));
    if (page.entries.empty() || page.entries.back().entry <= after) return all;
    after = page.entries.back().entry;
    all.entries.insert(all.entries.end(), page.entries.begin(), page.entries.end());
  }
}

Result<int> write_bundle(const CoordinatorClient& client, const std::string& job, const Arguments& arguments,
                         Console& console) {
  const std::pair<const char*, std::string> wanted[] = {{"job", job_target(job)},
                                                        {"trials", job_target(job, "/trials?all=1")},
                                                        {"events", job_target(job, "/events")},
                                                        {"report", job_target(job, "/report")},
                                                        {"card", job_target(job, "/card")},
                                                        {"live", job_target(job, "/live")},
                                                        {"nodes", "/v1/nodes"},
                                                        {"audit", "/v1/audit?after=0&job=" + percent_encoded(job)}};
  std::vector<std::pair<std::string, std::string>> bodies;
  for (const auto& [name, target] : wanted) {
    const auto body = client.get(target);
    bodies.emplace_back(name, body.ok() ? *body : body.error().message);  // an error is no JSON: it is named as missing
  }
  TRIMTAB_TRY_STATUS(
      write_private_file(arguments.bundle, incident_bundle(bodies, TRIMTAB_VERSION).dump(1) + "\n"));
  console.out << "wrote " << arguments.bundle << ": names, paths and what ranks printed are taken out. Look through it "
              << "before you send it\n";
  return 0;
}

Result<int> incident(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY(const std::string job, chosen_job(client, arguments.job));
  if (!arguments.bundle.empty()) return write_bundle(client, job, arguments, console);
  Incident found;
  TRIMTAB_TRY(found.job, client.read<api::Job>(job_target(job)));
  TRIMTAB_TRY_STATUS(watch(client, found));
  TRIMTAB_TRY(auto trials, client.read<api::Trials>(job_target(job, "/trials?all=1")));
  found.trials = std::move(trials.trials);
  // A token that sees this job alone may see neither of these.
  if (auto audit = audit_of(client, job); audit.ok()) found.audit = std::move(audit->entries);
  if (auto nodes = client.read<api::Nodes>("/v1/nodes"); nodes.ok()) found.nodes = std::move(nodes->nodes);
  const std::string named =
      arguments.session.coordinator.empty() ? "" : " --coordinator " + arguments.session.coordinator;
  if (arguments.json) {
    console.out << api::to_json(found.job) << "\n";
  } else {
    console.out << incident_text(found, named);
  }
  const bool fine = found.job.active ? found.steps > 0 : found.job.failure.empty();
  return fine ? 0 : 1;
}

}  // namespace

void add_incident(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "incident",
                            "Say whether a job trains, on which plan, what was tried last and why it ended "
                            "(exit 1: it does not train, or failed)",
                            "trimtab incident train-1");
  add_value(verb, "NAME", arguments->job, "NAME", "Which job (default: the only one)");
  add_value(verb, "--bundle", arguments->bundle, "FILE", "Write the documents for a bug report instead, redacted");
  add_coordinator_flags(verb, arguments->session);
  add_action(verb, selection, arguments, incident);
}

}  // namespace trimtab::cli

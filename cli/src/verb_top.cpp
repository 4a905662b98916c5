#include <CLI/CLI.hpp>
#include <deque>
#include <memory>
#include <thread>

#include "base/numbers.hpp"
#include "interrupt.hpp"
#include "plan_text.hpp"
#include "progress.hpp"
#include "session.hpp"
#include "status_text.hpp"
#include "text_table.hpp"
#include "verb.hpp"

namespace trimtab::cli {

namespace {

constexpr std::size_t kShown = 20;

struct Arguments {
  SessionFlags session;
  std::string job;
  bool once = false;
  bool json = false;
};

std::string table_of(const std::deque<JobState>& steps) {
  TextTable table({{"step", true}, {"time", true}, {"loss", true}, {"phase"}});
  for (const JobState& job : steps) {
    table.add({std::to_string(job.step), job.step_ms > 0 ? format_ms(job.step_ms) : "-",
               job.loss && job.step > 0 ? format_fixed(*job.loss, 4) : "-", job.phase});
  }
  return table.str(2);
}

std::string page_of(const std::deque<JobState>& steps) {
  const JobState& job = steps.back();
  return "job " + job.name + ": " + progress_line(job, 120) + "\n" +
         (job.incumbent ? one_line(*job.incumbent) + "\n" : "") + "\n" + table_of(steps);
}

Result<std::string> job_of(const CoordinatorClient& client, const std::string& wanted) {
  TRIMTAB_TRY(const std::string body, client.get("/v1/status"));
  TRIMTAB_TRY(const ClusterState cluster, parse_cluster_state(body));
  return choose_job(cluster, wanted);
}

Result<int> top(const Arguments& arguments, Console& console) {
  const InterruptGuard guard;
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY(const std::string name, job_of(client, arguments.job));
  std::deque<JobState> steps;
  while (!InterruptGuard::interrupted()) {
    TRIMTAB_TRY(const std::string body, client.get(job_target(name)));
    TRIMTAB_TRY(JobState job, parse_job_state(body));
    if (!steps.empty() && steps.back().step == job.step) steps.pop_back();
    steps.push_back(std::move(job));
    if (steps.size() > kShown) steps.pop_front();
    if (arguments.json) {
      console.out << body << std::endl;
    } else {
      if (!arguments.once) console.out << "\x1b[H\x1b[2J";
      console.out << page_of(steps) << std::flush;
    }
    if (arguments.once || !steps.back().active) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  return 0;
}

}  // namespace

void add_top(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      add_verb(root, "top", "Watch a job's steps, until it is over or Ctrl-C", "trimtab top --job gpt-cpu");
  add_value(verb, "--job", arguments->job, "NAME", "Which job (default: the only one)");
  verb->add_flag("--once", arguments->once, "Print once and end");
  add_coordinator_flags(verb, arguments->session);
  add_json(verb, arguments->json);
  verb->callback([arguments, &selection] {
    selection.action = [arguments](Console& console) { return top(*arguments, console); };
  });
}

}  // namespace trimtab::cli

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/numbers.hpp"
#include "files.hpp"
#include "jobs/interrupt.hpp"
#include "jobs/session.hpp"
#include "jobs/status_text.hpp"
#include "json_text.hpp"
#include "terminal_text.hpp"
#include "trace/fetch.hpp"

namespace trimtab::cli {

namespace {

constexpr double kDefaultSeconds = 2;
constexpr auto kPoll = std::chrono::milliseconds(100);
constexpr Nanoseconds kLongestSteps = std::chrono::seconds(120);  // agents give up steps that have not come by then

struct Arguments {
  SessionFlags session;
  std::string job;
  std::string file;
  double seconds = 0;
  std::uint32_t steps = 0;
  bool json = false;
};

// A file that only exists under its name when it is whole, where its name may be given to another file.
class WholeFile {
 public:
  explicit WholeFile(std::string path)
      : path_(std::move(path)), name_(replaced_name(path_)), aside_(name_ ? *name_ + ".part" : path_) {
    // What somebody has put there gives way.
    if (!name_ || replace_file(aside_, "").ok()) out_.open(aside_);
  }
  ~WholeFile() {
    if (!kept_ && name_) std::remove(aside_.c_str());
  }
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;
  std::ofstream& out() { return out_; }
  Status keep() {
    out_.close();
    std::error_code error;
    if (out_ && name_) std::filesystem::rename(aside_, *name_, error);
    if (!out_ || error) return unavailable("couldn't write " + path_ + "; is the disk full?");
    kept_ = true;
    return {};
  }

 private:
  std::string path_;
  std::optional<std::string> name_;
  std::string aside_;
  std::ofstream out_;
  bool kept_ = false;
};

// The coordinator's side of one trace; given back however the verb ends.
class RunningTrace {
 public:
  RunningTrace(const CoordinatorClient& client, std::uint64_t id)
      : client_(client), target_("/v1/traces/" + std::to_string(id)) {}
  ~RunningTrace() {
    // A coordinator that is lost stops by itself what nobody asks for.
    if (!lost_) (void)client_.post(target_ + "/finish", "");
  }
  RunningTrace(const RunningTrace&) = delete;
  RunningTrace& operator=(const RunningTrace&) = delete;
  FetchedTrace fetch(Nanoseconds length, TraceEvents& events) {
    const SystemClock clock;
    const TraceSource source{
        [this] { return client_.get(target_); },
        [this](std::uint64_t number) { return client_.get(target_ + "/chunk?number=" + std::to_string(number)); }};
    FetchedTrace fetched = fetch_trace(
        source, length, events, clock, [] { std::this_thread::sleep_for(kPoll); }, InterruptGuard::interrupted);
    lost_ = !fetched.lost.empty();
    return fetched;
  }

 private:
  const CoordinatorClient& client_;
  std::string target_;
  bool lost_ = false;
};

using Remarks = std::vector<std::string>;

std::string count_of(std::uint64_t records, const std::string& fate) {
  return std::to_string(records) + " records " + fate;
}

void remark_on(const api::TracedRank& rank, const std::string& node, Remarks& remarks) {
  const auto say = [&](const std::string& what) {
    remarks.push_back("rank " + std::to_string(rank.rank) + " on " + node + ": " + what);
  };
  if (!rank.remark.empty()) say(rank.remark);
  if (rank.truncated) say("truncated: it records more than a trace may hold");
  if (rank.dropped > 0) say(count_of(rank.dropped, "dropped on the way"));
  if (rank.ring_dropped > 0) say(count_of(rank.ring_dropped, "found their ring full"));
}

void remark_on(const api::TracedNode& node, bool given_up, Remarks& remarks) {
  const auto say = [&](const std::string& what) { remarks.push_back("node " + node.node + ": " + what); };
  if (!node.remark.empty()) say(node.remark);
  if (node.remark.empty() && !node.clock_ahead_ns) {
    say("its clock has not been compared with the coordinator's yet, its times are as they came");
  }
  if (given_up && !node.ended) say("it is silent");
  if (node.ended && node.remark.empty() && node.ranks.empty()) say("no rank of this job has a record ring here");
  for (const api::TracedRank& rank : node.ranks) remark_on(rank, node.node, remarks);
}

// What somebody who reads the file must know, in lines.
Remarks remarks_of(const FetchedTrace& fetched, const TraceEvents& events) {
  Remarks remarks;
  const std::uint64_t dropped = fetched.state.dropped;
  const std::uint64_t malformed = events.counts().malformed;
  if (fetched.interrupted) remarks.emplace_back("interrupted: the rest was not fetched");
  if (!fetched.lost.empty()) remarks.push_back("coordinator: lost, the rest was not fetched: " + fetched.lost);
  if (fetched.given_up) remarks.emplace_back("given up: not every node said that it is done");
  if (dropped > 0) remarks.push_back("coordinator: " + count_of(dropped, "dropped, this reader was too slow"));
  if (malformed > 0) remarks.push_back("trace: " + std::to_string(malformed) + " chunks made no sense");
  for (const api::TracedNode& node : fetched.state.nodes) remark_on(node, fetched.given_up, remarks);
  return remarks;
}

constexpr const char* kClocks =
    "clock_ahead_ns, a node's clock less the coordinator's when the trace began, has been taken off the times of its "
    "records; the truth lies within clock_unsure_ns of it. A node without it has its own clock.";

void put_on_one_clock(const api::Trace& begun, TraceEvents& events) {
  for (const api::TracedNode& node : begun.nodes) {
    if (node.clock_ahead_ns) events.set_clock(node.node, *node.clock_ahead_ns);
  }
}

Result<int> trace(const Arguments& arguments, Console& console) {
  const InterruptGuard guard;
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY(const std::string job, chosen_job(client, arguments.job));
  WholeFile file(arguments.file);
  if (!file.out().is_open()) return bad_input("-o: cannot write " + arguments.file + "; is there such a directory?");
  const double seconds = arguments.seconds > 0 ? arguments.seconds : kDefaultSeconds;
  const bool by_steps = arguments.steps > 0;
  const api::TraceRequest request =
      by_steps ? api::TraceRequest{std::nullopt, arguments.steps} : api::TraceRequest{seconds, std::nullopt};
  const Nanoseconds length = by_steps ? kLongestSteps : Nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  TRIMTAB_TRY(const std::string reply, client.post(job_target(job, "/trace"), api::to_json(request)));
  TRIMTAB_TRY(const api::Trace begun, read_reply<api::Trace>(reply));
  RunningTrace running(client, begun.trace);
  TraceEvents events(file.out());
  put_on_one_clock(begun, events);
  const FetchedTrace fetched = running.fetch(length, events);
  const Remarks remarks = remarks_of(fetched, events);
  events.finish(
      api::to_json(api::TraceRemarks{"trimtab " TRIMTAB_VERSION, job, remarks, kClocks, fetched.state.nodes}));
  if (events.counts().records == 0 && !fetched.lost.empty()) {
    return unavailable("lost the coordinator before anything of the trace had come: " + fetched.lost);
  }
  if (events.counts().records == 0) {
    std::string why;
    for (const std::string& remark : remarks) why += "; " + printable(remark);
    return no("nothing was recorded of job " + job + why);
  }
  TRIMTAB_TRY_STATUS(file.keep());
  const TraceEvents::Counts& counts = events.counts();
  if (!fetched.lost.empty()) {
    return unavailable("lost the coordinator while the trace was fetched: " + fetched.lost + "; " + arguments.file +
                       " holds the " + std::to_string(counts.records) + " records that had come");
  }
  if (arguments.json) {
    console.out << json_text({{"file", arguments.file},
                              {"job", job},
                              {"records", counts.records},
                              {"ranges", counts.ranges},
                              {"kernels", counts.kernels},
                              {"collectives", counts.collectives},
                              {"arrows", counts.arrows},
                              {"processes", events.processes()},
                              {"remarks", remarks}})
                << "\n";
    return 0;
  }
  console.out << arguments.file << ": " << counts.records << " records of " << events.processes() << " processes ("
              << counts.ranges << " ranges, " << counts.kernels << " kernels and copies, " << counts.collectives
              << " collectives). Open it at https://ui.perfetto.dev\n";
  for (const std::string& remark : remarks) console.err << printable(remark) << "\n";
  return 0;
}

}  // namespace

void add_trace(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "trace", "Record a running job in full detail for a while, for Perfetto",
                            "trimtab trace --job gpt-cpu --steps 3 -o trace.json");
  add_value(verb, "--job", arguments->job, "NAME", "Which job (default: the only one)");
  auto* seconds = verb->add_option("--seconds", arguments->seconds, "For so long (default: 2)")
                      ->type_name("N")
                      ->check(CLI::Range(0.001, 600.0));
  verb->add_option("--steps", arguments->steps, "For so many whole steps")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000))
      ->excludes(seconds);
  add_value(verb, "-o,--out", arguments->file, "FILE", "Where the trace goes", Need::kRequired);
  add_coordinator_flags(verb, arguments->session);
  add_action(verb, selection, arguments, trace);
}

}  // namespace trimtab::cli

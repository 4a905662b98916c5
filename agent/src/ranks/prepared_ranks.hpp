#pragma once

// The starts of a job's next two launches, while its ranks train (docs/protocols.md, "Prepared launches"). For each a
// process of a rank imports what the rank has imported here, and waits before the first line of its program
// (client/python/watch_hook/trimtab_prepared.py). It has no device, no rendezvous and no lock. It ends with the agent,
// and first of all where memory runs out. A launch that differs in more than its arguments and what names a launch is
// begun bare, as is any where something is wrong. Loop thread only.

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "processes/processes.hpp"
#include "ranks/rank_start.hpp"

namespace trimtab::agent {

// Asks a rank that may be launched anew to note its imports in the file `notes`. Nothing changes where the job is not
// restarted for trials, has switched it off, or has not Trimtab's client in PYTHONPATH, beside which the hook stands.
void ask_for_notes(const Job& job, const std::string& notes, Environment& environment);

class PreparedRanks final {
 public:
  explicit PreparedRanks(Processes& processes) : processes_(processes) {}
  ~PreparedRanks();
  PreparedRanks(const PreparedRanks&) = delete;
  PreparedRanks& operator=(const PreparedRanks&) = delete;

  // A process that becomes this rank once it is released, with its output in `log`, which must be open until then.
  // Nothing: there is none that is like it, and a bare launch follows.
  [[nodiscard]] std::unique_ptr<HeldChild> take(const RankStart& start, int log);
  // This rank has been started. Its next launch is prepared where ask_for_notes() has asked it.
  void started(const RankStart& start);
  // Every few seconds. `trains`: of a job and a rank the process that leads it, once its program trains; else 0.
  void follow(Nanoseconds now, const std::function<pid_t(const std::string&, std::uint32_t)>& trains);
  // Nothing more of the job is launched.
  void forget(const std::string& job);

  // The processor time that preparing has taken since this was last asked, of all processors together.
  [[nodiscard]] Nanoseconds take_cost(const std::string& job);
  // Processes that the next launches would take.
  [[nodiscard]] std::size_t waiting() const;

 private:
  // What makes a launch another than the one before.
  struct Kind {
    std::vector<std::string> words;
    Environment environment;
    std::string directory;
  };
  struct Process {
    Kind kind;  // words: without the program's arguments
    pid_t pid = 0;
    std::uint64_t start_time = 0;
    Descriptor channel;
    std::unique_ptr<WatchedProcess> watch;
    Nanoseconds since{0};
    bool here = false;    // the hook has taken it
    bool ending = false;  // killed
  };
  struct Next {
    std::vector<Kind> kinds;          // of the last two launches that differ in it, the latest first
    std::vector<std::string> prefix;  // what of its words is not the program's arguments; empty = not known yet
    std::vector<std::unique_ptr<Process>> processes;
    int attempts = 0;  // since the last launch
  };
  using Place = std::pair<std::string, std::uint32_t>;  // job and rank

  [[nodiscard]] static Kind kind_of(const RankStart& start);
  [[nodiscard]] static std::string difference(const Kind& one, const Kind& other);
  [[nodiscard]] bool is_stopped(const Process& process) const;
  void prepare(const Place& place, Next& next, pid_t pid, Nanoseconds now);
  [[nodiscard]] Status begin(const Place& place, Next& next, const Kind& kind, Nanoseconds now);
  void hear(const Place& place, Process& process) const;
  void end(const Place& place, Process& process);
  void ended(pid_t pid, const ProcessEnd& end);

  Processes& processes_;
  std::map<Place, Next> next_;
  std::map<std::string, Nanoseconds> costs_;  // by job
};

}  // namespace trimtab::agent

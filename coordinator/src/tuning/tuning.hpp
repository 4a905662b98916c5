#pragma once

// The loop for one job, as a pure state machine: measure, remember, predict, trial, correct, again. Events with their
// moments go in, actions come out; no sockets, files, clocks or threads.
//
// Who drives it: feed an event; when its outcome has changed the state, persist state() (with the outcome's notes,
// decisions, steps and trials) in one transaction; only then carry the actions out. A machine that is built from a
// persisted state and resume()d goes on: the interrupted trial has failed ("coordinator restarted"), ranks are brought
// back to the incumbent, tuning continues.
//
// It alone moves phases. Each concern has a part, which owns what it keeps, reads the rest through a View and tells
// what it wants in an Outcome. Parts that steer ranks tell besides what the machine is to go on with (Next).
// Single-threaded. Sources: tuning.cpp (events), phases.cpp (preparation, and where phases go on), ending.cpp,
// invariants.cpp.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tuning/authority.hpp"
#include "tuning/change/plan_changes.hpp"
#include "tuning/elastic/resizing.hpp"
#include "tuning/event.hpp"
#include "tuning/hardware/retuning.hpp"
#include "tuning/launch/launch.hpp"
#include "tuning/machine.hpp"
#include "tuning/trial/trying.hpp"
#include "tuning/watching/watching.hpp"

namespace trimtab::coordinator {

class Tuning {
 public:
  explicit Tuning(TuningState state);

  // A new job.
  [[nodiscard]] Outcome begin(Moment now);
  // A job that an earlier coordinator left. Its nodes count as lost until each comes back.
  [[nodiscard]] Outcome resume(Moment now);
  [[nodiscard]] Outcome handle(const Event& event, Moment now);

  [[nodiscard]] const TuningState& state() const { return m_.state; }
  [[nodiscard]] Progress progress() const;
  // REQUIRES: a SearchPlans action was the last of its kind. Costs and budgets are the caller's to fill in.
  [[nodiscard]] SearchTask search_task(SearchFor purpose = SearchFor::kJob) const;
  // Whether nodes may be offered now (NodesOffered): the job has fewer devices than it asked for, and is calm.
  [[nodiscard]] bool takes_nodes() const { return m_.elastic.takes_nodes(); }
  // The fingerprint under which this job's benchmarks really store their costs.
  void set_fingerprint(const std::string& hash) { m_.state.fingerprint = hash; }
  // The hardware as it was when the costs were measured. Call before NodesReady.
  void set_probes(std::vector<Probe> probes) {
    m_.state.hardware.first_probes = m_.state.hardware.last_probes = std::move(probes);
  }
  // What earlier jobs learnt on this hardware: those of this name, else the latest of any. Call before NodesReady, and
  // again once benchmarks have told whose costs the job's are, before the first search.
  void set_calibration(const std::string& document) {
    m_.state.calibration_json = m_.state.earlier_calibration_json = document;
  }

  // By which what is over is made small. Nothing is handled any more.
  void change_what_is_over(const std::function<void(TuningState&)>& change) { change(m_.state); }

  // Of a watched job.
  [[nodiscard]] const Watching& watching() const { return watching_; }

  // Why the ranks stay on the incumbent, whatever is found: frozen, or a node's kill switch. Empty = they need not.
  [[nodiscard]] std::string held_by() const { return m_.view.held_by(); }
  [[nodiscard]] const std::string& log_of_rank_0() const { return launch_.log_of_rank_0(); }
  [[nodiscard]] const KillSwitches& kill_switches() const { return m_.thrown; }

 private:
  // tuning.cpp
  [[nodiscard]] Next on(const Tick&);
  [[nodiscard]] Next on(const CommandFinished&);
  [[nodiscard]] Next on(const CommandMoved&);
  [[nodiscard]] Next on(const SearchFinished&);
  [[nodiscard]] Next on(const FromRank&);
  [[nodiscard]] Next on(const NodeLost&);
  [[nodiscard]] Next on(const NodeBack&);
  [[nodiscard]] Next on(const NodesOffered&);
  [[nodiscard]] Next on(Order);
  [[nodiscard]] Next on_step(const JobStep& step);
  // All that is left to do, until nothing is.
  void follow(Next next);
  [[nodiscard]] Next carry_out(const Next& next);
  // What an event, now that it is handled, has come to.
  [[nodiscard]] Outcome outcome();

  // phases.cpp
  void enter(Phase phase);
  [[nodiscard]] Next on(const NodesReady&);
  [[nodiscard]] Next on(const CostsCounted&);
  [[nodiscard]] Next described(const CommandFinished&);
  [[nodiscard]] Next cannot_profile(const std::string& why);
  [[nodiscard]] Next profiled();
  [[nodiscard]] Next first_search_finished(const SearchReply&);
  [[nodiscard]] Next recovered();
  [[nodiscard]] Next settled();
  [[nodiscard]] Next launch_incumbent();

  // ending.cpp
  [[nodiscard]] Next finish_trials(const std::string& why, bool searched);
  [[nodiscard]] Next end_tuning();
  [[nodiscard]] Next stop_ranks();
  [[nodiscard]] Next ranks_killed();
  [[nodiscard]] Next ranks_ended();
  [[nodiscard]] Next begin_untuned();
  [[nodiscard]] Next end(Phase phase);
  [[nodiscard]] Next fail(const std::string& why);
  [[nodiscard]] Next user_stop();
  [[nodiscard]] Next end_preparation(AfterKill after);

  // invariants.cpp
  void check_invariants() const;

  Machine m_;
  Launch launch_{m_};
  PlanChanges changes_{m_, launch_};
  Trying trying_{m_, changes_};
  Retuning retuning_{m_, launch_, trying_};
  Authority authority_{m_, trying_, retuning_};
  Resizing resizing_{m_, launch_};
  Watching watching_{m_};
};

}  // namespace trimtab::coordinator

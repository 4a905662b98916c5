#pragma once

// What the machine's parts want done and told after an event, and what the machine is to go on with.

#include <string>
#include <utility>
#include <vector>

#include "tuning/action.hpp"
#include "tuning/trial/trial_records.hpp"

namespace trimtab::coordinator {

struct Outcome {
  std::vector<Action> actions;
  std::vector<Note> notes;
  std::vector<Decision> decisions;
  std::vector<MeasuredStep> steps;
  std::vector<Trial> changed_trials;  // besides the latest: their rows in the database are not right any more
  bool changed = false;               // the state, which is stored before the actions are carried out

  void act(Action action) { actions.push_back(std::move(action)); }
  void note(std::string kind, std::string text, std::string data_json = "{}") {
    notes.push_back({std::move(kind), std::move(text), std::move(data_json)});
  }
  void decide(std::string what, std::string why) { decisions.push_back({std::move(what), std::move(why)}); }
};

// What a part has left to do that is not its own: where a phase ends, or another part goes on. The machine does it at
// once (Tuning::follow).
struct Next {
  enum Kind {
    kNothing,
    kSettle,             // every rank runs the incumbent and nothing is under way: the phase goes on
    kRollBack,           // ranks are brought to the incumbent
    kCrashed,            // they have, or hang: reason, why
    kTrialLaunchFailed,  // reason, why
    kRanksKilled,        // all that were to be
    kRanksEnded,         // by themselves
    kBeginAnew,          // on other nodes, once the ranks are ended
    kShrink,             // the job, to the nodes that are left
    kGoBack,             // to the nodes before others joined: why
    kBack,               // that is done, but for the ranks, which are being ended
    kProfile,            // what costs are missing is measured
    kMeasureAnew,        // the incumbent, on hardware that is not what it was: ranks and benchmarks are ended
    kTune,               // from the incumbent
    kWithdraw,           // the question whether to try a plan: why
    kFinishTrials,       // why
    kSearchFailed,       // trials end for it: why
    kEndTuning,
    kWatch,           // the ranks of a watched job are there
    kEndPreparation,  // the job has failed before its first launch
    kFail,            // why
  };
  Kind kind = kNothing;
  std::string why = {};
  Reason reason = {};
};

}  // namespace trimtab::coordinator

#pragma once

// What the machine's parts want done and told after an event.

#include <string>
#include <utility>
#include <vector>

#include "tuning/action.hpp"

namespace trimtab::coordinator {

struct Outcome {
  std::vector<Action> actions;
  std::vector<Note> notes;
  std::vector<Decision> decisions;
  bool changed = false;  // the state, which is stored before the actions are carried out

  void act(Action action) { actions.push_back(std::move(action)); }
  void note(std::string kind, std::string text, std::string data_json = "{}") {
    notes.push_back({std::move(kind), std::move(text), std::move(data_json)});
  }
  void decide(std::string what, std::string why) { decisions.push_back({std::move(what), std::move(why)}); }
};

}  // namespace trimtab::coordinator

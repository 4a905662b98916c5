#pragma once

// job.toml for a command that somebody types to train, as `trimtab init` writes it and `trimtab tune -- COMMAND` takes
// it. Pure.

#include "init/command_reading.hpp"
#include "plans/module_model.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "schema/plan_import.hpp"

namespace trimtab::cli {

// What the disk and the machine say.
struct CommandFacts {
  std::string directory;    // where the command is given, as the file says it: "." beside the file
  std::string script_text;  // empty: it is no script, or cannot be read
  std::string layers;       // "model:layers", a function that trimtab.module_model takes; empty: none is found
  std::string interpreter;  // that runs the launcher, by its first line; empty: it names none
  std::vector<std::string> python_path;  // folders in which a rank finds the model's module and Trimtab's client
  std::string hook;                      // the folder that watches an unmodified script; empty: it is not there, …
  std::string no_hook;                   // … and why
  std::optional<PlanFile> plan_file;     // what the command says a plan in, with the files that it names
  std::map<std::string, std::string> launcher_environment;  // that accelerate's launcher gives its ranks
  std::optional<std::int32_t> launcher_processes;           // that it starts, by its file
  std::vector<std::string> launcher_unread;                 // what it is told that no variable says
  std::string model_path;                                   // model.json, where its user names one
  std::string model_text;
  std::string layers_model;  // model.json of `layers`, where it was asked for
  std::string config_path;   // config.json of the model that a Trainer is given
  std::string config_text;
  std::optional<std::int32_t> devices;  // of this machine; nothing: no GPU is found
  std::int32_t threads = 1;             // that this process may use
  std::uint16_t meeting_port = 29517;   // at which ranks meet, unless the command says another
};

// What its user wants of the job beyond what the command says.
struct DraftWishes {
  bool tune = false;  // plans or own knobs are to be tried, not only looked at
  std::vector<OwnKnob> own_knobs;
  std::string checkpoint;             // where the job saves and resumes; empty: as the command says
  std::optional<std::int64_t> steps;  // nothing: as the command says
  std::string model;                  // path of model.json; empty: what the command names
};

inline constexpr std::string_view kPlanFile = "plan.json";  // beside the job file

struct JobDraft {
  std::string target;                 // empty: none is recognised
  std::string why;                    // by what it was recognised, or why it is not
  bool plans = false;                 // the job can be given plans: describe and benchmark are known
  bool usual = false;                 // nobody has named a knob: its own are the usual ones
  bool tunes = false;                 // it has something to try: plans or knobs of its own
  bool live = false;                  // its ranks change their plan as they train: nothing is stopped for a trial
  bool saves = false;                 // where it saves and resumes can be set from without
  bool counts = false;                // how many steps it trains is known
  std::optional<Model> model;         // where the command's arguments say it
  std::optional<Plan> plan;           // that the command runs, where its arguments say it; the file names it kPlanFile
  std::vector<std::string> describe;  // the command that prints the model, where a plan of a framework's is known
  std::int32_t world_size = 1;
  std::vector<std::string>
      unread;  // what the job lacks of the command, and why; a tuned job would not be the command's
  std::string name;
  std::string toml;
  std::vector<std::string> remarks;  // what to do next, for the terminal
};

// What the model is to be asked for before draft_job(), where a script that changes its plan live is to be tuned;
// nothing: it is not, or nobody knows how many samples a step has.
[[nodiscard]] std::optional<ModuleModel> wanted_layers_model(const std::vector<std::string>& command,
                                                             const CommandFacts& facts, const DraftWishes& wishes);

// The target that the script runs: its own words are believed before the command line's.
[[nodiscard]] JobDraft draft_job(const std::vector<std::string>& command, const CommandFacts& facts,
                                 const DraftWishes& wishes = {});

}  // namespace trimtab::cli

// `trimtab run -- COMMAND`: one word before the command. Whatever goes wrong here, the command runs.

#include <CLI/CLI.hpp>
#include <filesystem>

#include "daemons/process.hpp"
#include "jobs/card_text.hpp"
#include "run/card_files.hpp"
#include "run/foreground.hpp"
#include "run/hardware_notes.hpp"
#include "run/job_name.hpp"
#include "run/parts.hpp"
#include "run/watch_environment.hpp"
#include "run/watching.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  SessionFlags session;
  std::string out;
  std::string name;
  std::string shared;
  std::string socket;
  bool json = false;
};

// What was made ready for the command; without a watch it runs bare.
struct Preparation {
  std::optional<Watch> watch;
  VariableChanges changes;
  std::string directory;  // of the card's files; empty = none are written
};

void warn_bare(const std::string& why, Console& console) {
  console.err << "trimtab: " << printable(why) << "; the command runs without Trimtab" << std::endl;
}

// Why this run has nothing to add; empty = it has.
std::string needless(const Variables& variables) {
  if (value_of(variables, "TRIMTAB") == "0") return "TRIMTAB=0 is set";
  if (is_launched(variables)) return "an agent has launched this process and measures it already";
  return "";
}

// An outer run watches this command, too: nothing changes, and nothing need be said.
bool is_inside_another(const Variables& variables) {
  return is_watched(variables) && agent_socket_here(value_of(variables, "TRIMTAB_SOCKET"), "", variables).ok();
}

void prepare_directory(const Arguments& arguments, Preparation& preparation, Console& console) {
  if (!preparation.watch->leads) return;
  std::error_code failure;
  const std::string wanted = arguments.out.empty() ? "trimtab-out/" + preparation.watch->job : arguments.out;
  const Status usable = check_card_directory(wanted);
  if (usable.ok()) {
    preparation.directory = std::filesystem::absolute(wanted, failure).lexically_normal().string();
  } else {
    console.err << "trimtab: " << printable(usable.error().message)
                << "; the card will be printed, not written. Name another directory by --out" << std::endl;
  }
}

std::string folder_beside(const std::string& out) {
  const std::string parent = std::filesystem::path(out.empty() ? "trimtab-out/job" : out).parent_path().string();
  return parent.empty() ? "." : parent;
}

void tell_hardware(const Variables& variables, Console& console) {
  for (const std::string& note : hardware_notes(host::find_amd_gpus("/"), variables)) {
    console.err << "trimtab: " << note << std::endl;
  }
}

// Whatever the step throws is said, and the command is not concerned.
void unharmed(const char* what, Console& console, const std::function<void()>& step) {
  try {
    step();
  } catch (const std::exception& fault) {
    console.err << "trimtab: " << what << " failed: " << printable(fault.what()) << std::endl;
  }
}

Preparation prepare(const Arguments& arguments, const std::string& job, const Variables& variables, const Clock& clock,
                    Console& console) {
  Preparation preparation;
  if (is_inside_another(variables)) return preparation;
  if (const std::string why = needless(variables); !why.empty()) {
    warn_bare(why, console);
    return preparation;
  }
  const auto parts = watch_parts(program_directory());
  const WatchRequest request{arguments.session, arguments.socket, arguments.shared, folder_beside(arguments.out), job,
                             variables};
  auto watch = parts.ok() ? begin_watch(request, clock) : parts.error();
  if (!watch.ok()) {
    warn_bare(watch.error().message, console);
    return preparation;
  }
  if (!watch->note.empty()) console.err << "trimtab: " << watch->note << std::endl;
  if (watch->leads) tell_hardware(variables, console);
  preparation.changes = watch_changes(variables, {watch->socket, watch->job, parts->library, parts->client});
  preparation.watch = std::move(*watch);
  prepare_directory(arguments, preparation, console);
  return preparation;
}

void show_card(const Arguments& arguments, const Preparation& preparation, const Clock& clock, Console& console) {
  const Watch& watch = *preparation.watch;
  const CardLook look = await_card(CoordinatorClient(watch.coordinator), watch.job, clock, SignalGate::asked_to_end);
  if (!look.card || look.card->steps == 0) {
    console.err << "trimtab: " << printable(no_card_text(look, watch.job)) << std::endl;
    if (!preparation.directory.empty()) remove_empty_directory(preparation.directory);
    return;
  }
  const std::string text = card_text(*look.card);
  console.err << (arguments.json ? look.json + "\n" : text) << std::flush;
  if (preparation.directory.empty()) return;
  const Status written = write_card(preparation.directory, look, text);
  console.err << "trimtab: "
              << (written.ok() ? "the card is in " + preparation.directory : printable(written.error().message))
              << std::endl;
}

Result<int> run_command_line(const Arguments& arguments, const std::vector<std::string>& words, Console& console) {
  if (words.empty()) {
    return bad_input("run: needs \"--\" and a command behind it, such as: trimtab run -- torchrun train.py");
  }
  if (!arguments.name.empty()) TRIMTAB_TRY_STATUS(check_job_name(arguments.name));
  const SystemClock clock;
  const Variables variables = own_variables();
  const ProgramPlace program = find_program(words.front(), value_of(variables, "PATH"));
  if (program.path.empty()) {
    console.err << "trimtab: " << printable(words.front()) << ": " << program.problem << std::endl;
    return program.exit_code;
  }
  const std::string job = arguments.name.empty() ? job_name_of(words) : arguments.name;
  Preparation preparation;
  unharmed("getting ready to watch the command, which runs without Trimtab,", console,
           [&] { preparation = prepare(arguments, job, variables, clock, console); });
  const SignalGate gate;
  const ForegroundCommand command{words, program.path, changed_environment(preparation.changes),
                                  changed_environment({}), console.ignored};
  const auto started = [&](pid_t pid) {
    if (preparation.watch) unharmed("watching", console, [&] { tell_command(*preparation.watch, pid); });
  };
  const auto end =
      run_in_foreground(command, gate, started, [&console](const std::string& why) { warn_bare(why, console); });
  unharmed("the card", console, [&] {
    if (end.ok() && preparation.watch && preparation.watch->leads) show_card(arguments, preparation, clock, console);
  });
  unharmed("the end of the watch", console, [&] {
    if (preparation.watch) end_watch(*preparation.watch, clock);
  });
  if (end.ok()) return end_as(*end);
  console.err << "trimtab: " << printable(end.error().message) << std::endl;
  return kNotExecutable;
}

}  // namespace

void add_run(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "run", "Run the command behind -- as it is, watch it, and print its verdict card",
                            "trimtab run -- torchrun --nproc_per_node 2 train.py");
  add_value(verb, "--out", arguments->out, "DIR", "Where card.json and card.txt go (default: trimtab-out/NAME)");
  add_value(verb, "--name", arguments->name, "NAME", "What the job is called (default: as its script)");
  add_value(verb, "--shared", arguments->shared, "DIR",
            "Folder that all nodes of the job see, of yours alone (default: beside --out, in a Slurm step of several)");
  add_value(verb, "--agent-socket", arguments->socket, "FILE", "The socket of the agent that is to watch the command");
  add_coordinator_flags(verb, arguments->session);
  add_action(verb, selection, arguments, run_command_line);
}

}  // namespace trimtab::cli

// Where the steps of a job go that another profiler recorded: `explain`.

#include <CLI/CLI.hpp>
#include <filesystem>

#include "coordinator/trace_card.hpp"
#include "jobs/card_text.hpp"
#include "schema/traces/read_traces.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  std::vector<std::string> files;
  bool json = false;
};

// How the card calls the job: by the one file or folder, or by the first of several.
std::string name_of(const std::vector<std::string>& files) {
  std::filesystem::path path(files.front());
  if (!path.has_filename()) path = path.parent_path();
  const std::string first = path.filename().string();
  return files.size() == 1 ? first : first + " and " + std::to_string(files.size() - 1) + " more";
}

Result<int> explain(const Arguments& arguments, Console& console) {
  coordinator::TraceCard ranks;
  TRIMTAB_TRY_STATUS(read_traces(arguments.files, [&ranks](TracedRank rank) { ranks.add(std::move(rank)); }));
  TRIMTAB_TRY(const api::Card card, ranks.card(name_of(arguments.files)));
  console.out << (arguments.json ? api::to_json(card) + "\n" : card_text(card));
  return 0;
}

}  // namespace

void add_explain(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "explain", "Say where a job's steps went, from the traces of another profiler",
                            "trimtab explain rank0.pt.trace.json.gz rank1.pt.trace.json.gz");
  add_values(
      verb, "FILE", arguments->files, "FILE",
      "Traces of PyTorch Profiler (.json, .json.gz; one of each rank) or Nsight Systems' exports (.sqlite), or a "
      "folder of them",
      Need::kRequired);
  add_action(verb, selection, arguments, explain);
}

}  // namespace trimtab::cli

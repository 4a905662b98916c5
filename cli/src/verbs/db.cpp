#include <algorithm>
#include <map>
#include <sstream>

#include "arguments.hpp"
#include "base/numbers.hpp"
#include "costs/cost_text.hpp"
#include "costs/import_costs.hpp"
#include "costs/taken_over.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "json_text.hpp"
#include "report/sections.hpp"
#include "schema/nccl_choice.hpp"
#include "terminal_text.hpp"
#include "tuner/cost_choice.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

struct Arguments {
  std::string database;
  std::string other;
  std::vector<std::string> sources;
  std::string fingerprint;
  std::string other_fingerprint;
  std::string target = "csv";
  std::string out;
  std::string top = "10";
  ImportArguments to_import;
  bool names = false;
  bool json = false;
};

// Costs of one kind and source together.
struct KindSummary {
  std::uint64_t costs = 0;
  std::uint64_t values = 0;
};
using Summary = std::map<std::pair<CostKind, CostSource>, KindSummary>;

Summary summary_of(const std::vector<Cost>& costs) {
  Summary summary;
  for (const Cost& cost : costs) {
    KindSummary& kind = summary[{cost.key.kind, cost.source}];
    ++kind.costs;
    kind.values += cost.statistics.count();
  }
  return summary;
}

// The longest times: where a plan's time can come from.
std::vector<const Cost*> longest(const std::vector<Cost>& costs, std::size_t count) {
  std::vector<const Cost*> times;
  for (const Cost& cost : costs) {
    if (unit_of(cost.key.kind) == "ns" && !cost.statistics.empty()) times.push_back(&cost);
  }
  std::sort(times.begin(), times.end(),
            [](const Cost* a, const Cost* b) { return a->statistics.mean() > b->statistics.mean(); });
  times.resize(std::min(times.size(), count));
  return times;
}

std::string taken_over_line(const std::optional<api::TakenOver>& taken) {
  return taken ? "  priced with " + printable(taken_over_text(*taken)) + "\n" : "";
}

json fingerprint_json(const Fingerprint& fingerprint, const std::vector<Cost>& costs, std::size_t top) {
  json kinds = json::object();
  for (const auto& [place, summary] : summary_of(costs)) {
    json& kind = kinds[std::string(to_string(place.first))];
    if (kind.is_null()) kind = json::object();
    kind["costs"] = kind.value("costs", std::uint64_t{0}) + summary.costs;
    kind["values"] = kind.value("values", std::uint64_t{0}) + summary.values;
    kind["sources"].push_back(
        {{"source", to_text(place.second)}, {"costs", summary.costs}, {"values", summary.values}});
  }
  json list = json::array();
  for (const Cost* cost : longest(costs, top)) {
    list.push_back({{"cost", json::parse(to_json(cost->key))},
                    {"source", to_text(cost->source)},
                    {"mean_ns", cost->statistics.mean()},
                    {"count", cost->statistics.count()}});
  }
  return {{"fingerprint", hash(fingerprint)},
          {"device", json(fingerprint.device)},
          {"software", json(fingerprint.software)},
          {"fabric", json(fingerprint.fabric)},
          {"environment", json(fingerprint.environment)},
          {"kinds", kinds},
          {"longest", list}};
}

std::string layer_text(const char* name, const std::map<std::string, std::string>& layer) {
  const std::string text = joined(layer, ", ", [](const auto& entry) { return entry.first + "=" + entry.second; });
  return text.empty() ? "" : "  " + std::string(name) + ": " + printable(text) + "\n";
}

std::string fingerprint_text(const Fingerprint& fingerprint, const std::vector<Cost>& costs, std::size_t top) {
  std::string text = "fingerprint " + hash(fingerprint) + "\n" + layer_text("device", fingerprint.device) +
                     layer_text("software", fingerprint.software) + layer_text("fabric", fingerprint.fabric) +
                     layer_text("environment", fingerprint.environment) + "\n";
  TextTable kinds({"kind", "source", ">costs", ">values"});
  for (const auto& [place, summary] : summary_of(costs)) {
    kinds.add({std::string(to_string(place.first)), describe(place.second), std::to_string(summary.costs),
               std::to_string(summary.values)});
  }
  text += kinds.str(2);
  TextTable table({"longest", "source", ">mean", ">95 % interval", ">values"});
  for (const Cost* cost : longest(costs, top)) {
    const Statistics& values = cost->statistics;
    table.add({describe(cost->key), tuner::describe(cost->source, values), format_cost(cost->key.kind, values.mean()),
               "± " + format_cost(cost->key.kind, half_interval(values)), std::to_string(values.count())});
  }
  return text + (table.empty() ? "" : "\n" + table.str(2));
}

std::string contributors_text(const std::vector<ContributorSummary>& contributors) {
  TextTable table({"contributor", ">costs", "first", "last"});
  for (const ContributorSummary& one : contributors) {
    table.add({printable(one.name), std::to_string(one.costs), utc(one.first_ns), utc(one.last_ns)});
  }
  return table.empty() ? "" : table.str();
}

json contributors_json(const std::vector<ContributorSummary>& contributors) {
  json list = json::array();
  for (const ContributorSummary& one : contributors) {
    list.push_back({{"name", one.name}, {"costs", one.costs}, {"first_ns", one.first_ns}, {"last_ns", one.last_ns}});
  }
  return list;
}

Result<int> show(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const std::uint64_t top, parse_count("--top", arguments.top));
  TRIMTAB_TRY(ReadCosts database, open_costs(arguments.database, console.err));
  TRIMTAB_TRY(const std::vector<Fingerprint> fingerprints, database->fingerprints());
  json list = json::array();
  for (const Fingerprint& fingerprint : fingerprints) {
    if (!hash(fingerprint).starts_with(arguments.fingerprint)) continue;
    TRIMTAB_TRY(std::vector<Cost> stored, database->costs(hash(fingerprint)));
    const std::vector<Cost> costs = tuner::told_apart(std::move(stored));
    const auto taken = taken_over_there(*database, hash(fingerprint));
    if (arguments.json) {
      list.push_back(fingerprint_json(fingerprint, costs, top));
      if (taken) list.back()["taken_over"] = json::parse(api::to_json(*taken));
    } else {
      console.out << fingerprint_text(fingerprint, costs, top) << taken_over_line(taken) << "\n";
    }
  }
  const std::uint64_t unread = database.unread();
  TRIMTAB_TRY(const auto contributors, database->contributors());
  json document = {{"fingerprints", list}};
  if (!contributors.empty()) document["contributors"] = contributors_json(contributors);
  if (unread > 0) document["set_apart"] = unread;
  if (arguments.json) console.out << json_text(document, 2) << "\n";
  if (!arguments.json) console.out << contributors_text(contributors);
  if (fingerprints.empty() && !arguments.json) console.out << arguments.database << ": holds no costs yet\n";
  return 0;
}

Result<int> merge(const Arguments& arguments, Console& console) {
  // Every source is opened before the target is touched: a wrong name late in the list must not leave half a merge.
  for (const std::string& source : arguments.sources) {
    std::ostringstream unheard;  // merging tells
    TRIMTAB_TRY(const ReadCosts probe, open_costs(source, unheard));
  }
  TRIMTAB_TRY(CostDatabase target, open_costs_to_write(arguments.database, console.err));
  std::uint64_t batches = 0;
  for (const std::string& source : arguments.sources) {
    TRIMTAB_TRY(const ReadCosts other, open_costs(source, console.err));
    TRIMTAB_TRY(const MergeCounts counts, target.merge_from(*other));
    const std::uint64_t fresh = counts.batches;
    batches += fresh;
    if (!arguments.json) console.out << source << ": " << fresh << (fresh == 1 ? " new batch\n" : " new batches\n");
  }
  TRIMTAB_TRY(const std::vector<CostRow> rows, target.rows());
  const std::uint64_t costs = rows.size();
  console.out << (arguments.json ? json_text({{"new_batches", batches}, {"costs", costs}})
                                 : arguments.database + ": holds " + std::to_string(costs) + " costs")
              << "\n";
  return 0;
}

// What a measured database would tell NCCL, for its own example tuner plugin and others that read that format.
Result<int> export_nccl_choices(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const Costs known, read_costs(arguments.database, arguments.fingerprint, nullptr, "", console.err));
  const std::vector<NcclChoice> choices = nccl_choices(known.costs);
  if (choices.empty()) {
    return bad_input(arguments.database + ": nothing to choose for NCCL: no collective of fingerprint " +
                     known.fingerprint +
                     " was measured at one size with two algorithms, protocols or numbers of channels, ten times each");
  }
  TRIMTAB_TRY_STATUS(hand_out(to_nccl_tuner_csv(choices), arguments.out,
                              "wrote " + std::to_string(choices.size()) + " choices to " + arguments.out, console));
  return 0;
}

Result<int> export_costs(const Arguments& arguments, Console& console) {
  const std::string target = arguments.json ? "json" : arguments.target;
  TRIMTAB_TRY_STATUS(check_apart("--out", arguments.out, {arguments.database}));
  if (target == "nccl-tuner") return export_nccl_choices(arguments, console);
  if (target != "csv" && target != "json") {
    return bad_input("--to: this release exports to 'csv', 'json' and 'nccl-tuner', but found '" + target + "'");
  }
  TRIMTAB_TRY(const ReadCosts database, open_costs(arguments.database, console.err));
  TRIMTAB_TRY(std::vector<CostRow> rows, database->rows());
  std::erase_if(rows, [&](const CostRow& row) { return !row.fingerprint.starts_with(arguments.fingerprint); });
  if (!arguments.names) redact(rows);
  TRIMTAB_TRY_STATUS(hand_out(target == "csv" ? to_csv(rows) : to_json(rows), arguments.out,
                              "wrote " + std::to_string(rows.size()) + " costs to " + arguments.out, console));
  return 0;
}

std::string mean_text(CostKind kind, const Statistics* values) {
  if (values == nullptr) return "absent";
  return format_cost(kind, values->mean()) + " ± " + format_cost(kind, half_interval(*values));
}

std::string change_text(const CostChange& change) {
  if (change.before == nullptr || change.after == nullptr || change.before->mean() == 0) return "";
  const double ratio = change.after->mean() / change.before->mean() - 1;
  return (ratio > 0 ? "+" : "") + format_percent(ratio);
}

json change_json(const CostChange& change) {
  const auto side = [](const Statistics* values) {
    return values == nullptr
               ? json(nullptr)
               : json{{"mean", values->mean()}, {"half_interval", half_interval(*values)}, {"count", values->count()}};
  };
  return {{"cost", json::parse(to_json(change.key))},
          {"source", to_text(change.source)},
          {"before", side(change.before)},
          {"after", side(change.after)}};
}

Result<int> diff(const Arguments& arguments, Console& console) {
  const std::string& other = arguments.other_fingerprint.empty() ? arguments.fingerprint : arguments.other_fingerprint;
  TRIMTAB_TRY(const Costs before, read_costs(arguments.database, arguments.fingerprint, nullptr, "", console.err));
  TRIMTAB_TRY(const Costs after, read_costs(arguments.other, other, nullptr, "", console.err));
  const std::vector<CostChange> changes = differences(before.costs, after.costs);
  if (arguments.json) {
    json list = json::array();
    for (const CostChange& change : changes) list.push_back(change_json(change));
    console.out << json_text({{"before", before.fingerprint}, {"after", after.fingerprint}, {"differences", list}}, 2)
                << "\n";
    return 0;
  }
  console.out << "fingerprints " << before.fingerprint << " and " << after.fingerprint << "\n";
  TextTable table({"cost", "source", ">before", ">after", ">change"});
  for (const CostChange& change : changes) {
    const CostKind kind = change.key.kind;
    table.add({describe(change.key), describe(change.source), mean_text(kind, change.before),
               mean_text(kind, change.after), change_text(change)});
  }
  console.out << (changes.empty() ? "No cost differs by more than its interval.\n" : table.str());
  return 0;
}

Result<int> import_costs(const Arguments& arguments, Console& console) {
  return import_published(arguments.to_import, arguments.json, console);
}

void add_fingerprint(CLI::App* verb, Arguments& arguments) {
  add_value(verb, "--fingerprint", arguments.fingerprint, "HASH", "Of this fingerprint only (a prefix will do)");
}

void add_import(CLI::App* verb, ImportArguments& arguments) {
  add_value(verb, "--format", arguments.format, joined(published_formats(), "|"), "Whose format", Need::kRequired);
  add_values(
      verb, "paths", arguments.paths, "PATH",
      "What to read (aceso, galvatron: one or more directories of the authors' profiler; oases: a "
      "directory; nccl-tests: JSON files or what they print; nccl-inspector, traces: files or folders, of all ranks "
      "where they are at hand), then the cost database to add to, made when missing",
      Need::kRequired);
  add_value(verb, "--documents", arguments.documents, "DIR", "Write the profiled models and their clusters there");
  add_value(verb, "--fingerprint", arguments.fingerprint, "HASH",
            "Of the database (a prefix will do): store under it what was measured on that very hardware");
  SupplementTexts& texts = arguments.supplement;
  add_value(verb, "--layers", texts.layers, "N[,N]",
            "Layers of the model, one count for each kind, where neither the profile nor its authors say it");
  add_value(verb, "--hidden-size", texts.hidden, "N", "Elements of a token, likewise (galvatron)");
  add_value(verb, "--sequence-length", texts.sequence, "N", "Tokens of a sample, likewise (galvatron)");
  add_value(verb, "--global-batch", texts.global_batch, "N", "Samples of a step, likewise");
  add_value(verb, "--nodes", texts.nodes, "N", "Nodes of the cluster document (default: 1; aceso)");
  add_value(verb, "--devices-per-node", texts.devices_per_node, "N",
            "Devices of each of its nodes (aceso); ranks of each node, where no trace says who shares one (traces)");
  add_value(verb, "--device-memory", texts.device_memory, "GIB", "Memory of each of its devices");
}

}  // namespace

void add_db(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App& db =
      add_group(root, "db", "Look at, merge and export cost databases: files, or postgresql://USER@HOST/DATABASE",
                "trimtab db show costs.db");
  CLI::App* verb =
      add_verb(db, "show", "Print fingerprints, counts and the longest costs", "trimtab db show costs.db --top 20");
  add_action(verb, selection, arguments, show);
  add_value(verb, "database", arguments->database, "FILE", "Cost database", Need::kRequired);
  add_fingerprint(verb, *arguments);
  add_value(verb, "--top", arguments->top, "N", "How many of the longest costs to list", Need::kHasDefault);
  verb = add_verb(db, "merge", "Add other databases to one; batches that both have count once",
                  "trimtab db merge all.db node0.db node1.db");
  add_action(verb, selection, arguments, merge);
  add_value(verb, "database", arguments->database, "FILE", "Cost database to add to, made when missing",
            Need::kRequired);
  add_values(verb, "sources", arguments->sources, "FILE", "Cost databases to add", Need::kRequired);
  verb = add_verb(db, "export", "Write the costs as CSV or JSON, without names of jobs, operators and kernels",
                  "trimtab db export costs.db --to csv --out costs.csv");
  add_action(verb, selection, arguments, export_costs);
  add_value(verb, "database", arguments->database, "FILE", "Cost database", Need::kRequired);
  add_value(verb, "--to", arguments->target, "csv|json|nccl-tuner", "Format", Need::kHasDefault);
  add_value(verb, "-o,--out", arguments->out, "FILE", "Where to write (default: standard output)");
  add_flag(verb, "--names", arguments->names, "Keep the names of operators, kernels, ranges and plans");
  add_fingerprint(verb, *arguments);
  verb = add_verb(db, "diff", "Print the costs that differ by more than their intervals",
                  "trimtab db diff before.db after.db");
  add_action(verb, selection, arguments, diff);
  add_value(verb, "database", arguments->database, "FILE", "Cost database", Need::kRequired);
  add_value(verb, "other", arguments->other, "FILE", "The cost database to compare with", Need::kRequired);
  add_fingerprint(verb, *arguments);
  add_value(verb, "--other-fingerprint", arguments->other_fingerprint, "HASH",
            "The other's fingerprint, where it is another");
  verb =
      add_verb(db, "import",
               "Read profiles (Aceso's and Galvatron's as their profilers write them, Oases'), what nccl-tests "
               "measured (-J), or what a job's collectives took by traces of PyTorch Profiler and by NCCL Inspector; "
               "importing twice changes nothing",
               "trimtab db import --format aceso profiler/profiled-time-eurosys costs.db --documents documents/");
  add_action(verb, selection, arguments, import_costs);
  add_import(verb, arguments->to_import);
  add_db_sharing(db, selection);
}

}  // namespace trimtab::cli

#include "documents.hpp"

#include <algorithm>
#include <filesystem>

#include "arguments.hpp"
#include "base/text_parts.hpp"
#include "files.hpp"
#include "schema/database.hpp"
#include "schema/documents/document_text.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

Status set_knob(Knobs& knobs, const std::string& name) {
  std::vector<std::string> known;
  for (const KnobName& knob : kKnobs) {
    known.emplace_back(knob.name);
    if (name != knob.name) continue;
    knobs.*knob.knob = true;
    return {};
  }
  return bad_input("--knobs: unknown knob '" + name + "'" + did_you_mean(name, known) + " Known are: " + joined(known) +
                   ".");
}

bool named_by(const Cluster* cluster, const std::string& fingerprint) {
  return cluster != nullptr &&
         std::ranges::find(cluster->nodes, fingerprint, &Node::fingerprint) != cluster->nodes.end();
}

// Of a tenant's job, TENANT/JOB, they are kept apart.
std::string calibration_fact(const std::string& job) {
  const std::size_t slash = job.find('/');
  if (slash == std::string::npos) return "calibration/" + job;
  return "tenant/" + job.substr(0, slash) + "/calibration" + job.substr(slash);
}

}  // namespace

Result<Model> read_model(const std::string& path) {
  TRIMTAB_TRY(const std::string text, read_file(path));
  return parse_model(text, path);
}

Result<Cluster> read_cluster(const std::string& path) {
  TRIMTAB_TRY(const std::string text, read_file(path));
  return DocumentText<Cluster>(text, path).read();
}

Result<Plan> read_plan(const std::string& path) {
  TRIMTAB_TRY(const std::string text, read_file(path));
  return DocumentText<Plan>(text, path).read();
}

std::uint64_t ReadCosts::unread() {
  const DatabaseHealth health = database_.look_after();
  return health.set_apart + health.unreadable;
}

ReadCosts::~ReadCosts() {
  if (remarks_ == nullptr) return;
  const std::uint64_t rows = unread();
  if (rows == 0) return;
  *remarks_ << "warning: " << database_.name() << " was damaged: " << rows << (rows == 1 ? " place" : " places")
            << " of it could not be read. What stood there is left out here. Put a backup in its place, or measure it "
               "again. Its table set_apart names it once a program has opened it for writing\n";
}

Result<ReadCosts> open_costs(const std::string& path, std::ostream& remarks) {
  std::error_code failure;
  if (!names_server(path) && !std::filesystem::exists(path, failure)) {
    return bad_input("cannot read the cost database " + path + ": " +
                     (failure ? failure.message() : "No such file or directory"));
  }
  TRIMTAB_TRY(CostDatabase database, CostDatabase::open(path, OpenMode::kReadOnly));
  return ReadCosts(std::move(database), remarks);
}

Result<CostDatabase> open_costs_to_write(const std::string& name, std::ostream& remarks) {
  TRIMTAB_TRY(CostDatabase database, CostDatabase::open(name, OpenMode::kCreate));
  if (!database.backup().empty()) {
    remarks << "remark: " << name << " was upgraded to this release; as it was before it is in " << database.backup()
            << "\n";
  }
  const DatabaseHealth health = database.look_after();
  if (health.set_apart > 0) {
    remarks << "warning: " << name << " was damaged: what could not be read is told in its table set_apart"
            << (health.kept_as.empty() ? "" : ". The file as it was is " + health.kept_as) << "\n";
  }
  return database;
}

Result<std::string> choose_fingerprint(const std::vector<std::string>& known, const std::string& wanted,
                                       const Cluster* cluster, const std::string& path) {
  if (known.empty()) return bad_input(path + ": holds no costs; measure some with 'trimtab profile --job job.toml'");
  std::vector<std::string> matching;
  for (const std::string& hash : known) {
    const bool matches = wanted.empty() ? named_by(cluster, hash) : hash.starts_with(wanted);
    if (matches) matching.push_back(hash);
  }
  if (matching.size() == 1) return matching.front();
  if (wanted.empty() && known.size() == 1) return known.front();
  if (matching.size() > 1) {
    return bad_input(path + ": several fingerprints fit: " + joined(matching) + "; name one with --fingerprint");
  }
  if (wanted.empty()) {
    return bad_input(path + ": holds costs of several fingerprints, name one with --fingerprint: " + joined(known));
  }
  return bad_input(path + ": no fingerprint begins with '" + wanted + "'; it holds: " + joined(known));
}

Result<Costs> read_costs(const std::string& path, const std::string& fingerprint, const Cluster* cluster,
                         const std::string& job, std::ostream& remarks) {
  TRIMTAB_TRY(const ReadCosts database, open_costs(path, remarks));
  return read_costs(*database, fingerprint, cluster, job);
}

Result<Costs> read_costs(const CostDatabase& database, const std::string& fingerprint, const Cluster* cluster,
                         const std::string& job) {
  const std::string& path = database.name();
  TRIMTAB_TRY(const std::vector<Fingerprint> fingerprints, database.fingerprints());
  std::vector<std::string> known;
  for (const Fingerprint& one : fingerprints) known.push_back(hash(one));
  std::sort(known.begin(), known.end());
  Costs result;
  TRIMTAB_TRY(result.fingerprint, choose_fingerprint(known, fingerprint, cluster, path));
  TRIMTAB_TRY(result.costs, database.costs(result.fingerprint));
  if (job.empty()) return result;
  TRIMTAB_TRY(const auto calibration, database.fact(result.fingerprint, calibration_fact(job)));
  if (!calibration) return bad_input(path + ": no trials of the job '" + job + "' have calibrated these costs");
  auto parsed = tuner::parse_calibration(*calibration);
  if (!parsed.ok()) return wrap("the calibration in " + path, parsed.error());
  result.calibration = *parsed;
  return result;
}

Result<Knobs> parse_knobs(std::string_view text) {
  if (text.empty()) return Knobs{};
  Knobs knobs;
  for (const KnobName& knob : kKnobs) knobs.*knob.knob = false;
  for (const std::string_view name : parted(text)) TRIMTAB_TRY_STATUS(set_knob(knobs, std::string(name)));
  return knobs;
}

}  // namespace trimtab::cli

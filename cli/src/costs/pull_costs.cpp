#include <cstdlib>
#include <filesystem>

#include "costs/share_costs.hpp"
#include "documents.hpp"
#include "json_text.hpp"
#include "schema/api/costs.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

constexpr Nanoseconds kPatience = std::chrono::seconds(60);  // of a page, which waits for its turn

// For the copy, which goes again.
class CopyDirectory {
 public:
  CopyDirectory() {
    std::error_code failure;
    std::string name = (std::filesystem::temp_directory_path(failure) / "trimtab-pull-XXXXXX").string();
    if (!failure && ::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~CopyDirectory() {
    std::error_code failure;
    if (!path_.empty()) std::filesystem::remove_all(path_, failure);
  }
  CopyDirectory(const CopyDirectory&) = delete;
  CopyDirectory& operator=(const CopyDirectory&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Result<Cost> cost_of(const api::WholeCost& one) {
  TRIMTAB_TRY(CostKey key, parse_cost_key(one.key.json));
  TRIMTAB_TRY(Statistics statistics, Statistics::decode(one.statistics));
  return Cost{std::move(key), std::move(statistics)};
}

Result<CostPart> part_of(const api::OriginPart& document) {
  CostPart part{document.origin, document.folded, document.contributor, document.first_ns, document.last_ns, {}, {}};
  for (const api::WholeCost& one : document.costs) {
    TRIMTAB_TRY(Cost cost, cost_of(one));
    part.costs.push_back({one.fingerprint, one.source, std::move(cost)});
  }
  for (const api::CostBatchPart& one : document.batches) {
    CostPart::Batch batch{one.number, one.fingerprint, one.source, {}};
    for (const api::WholeCost& each : one.costs) {
      TRIMTAB_TRY(batch.costs.emplace_back(), cost_of(each));
    }
    part.batches.push_back(std::move(batch));
  }
  return part;
}

Result<CostParts> parts_of(const api::CostPages& document) {
  CostParts parts;
  parts.next = document.next;
  for (const api::KnownFingerprint& one : document.fingerprints) {
    TRIMTAB_TRY(parts.fingerprints.emplace_back(), parse_fingerprint(one.fingerprint.json, "fingerprint"));
  }
  for (const api::OriginPart& one : document.parts) {
    TRIMTAB_TRY(parts.parts.emplace_back(), part_of(one));
  }
  return parts;
}

Status copy(const CoordinatorClient& client, CostDatabase& into) {
  std::string after;
  do {
    TRIMTAB_TRY(const std::string body, client.get("/v1/costs/parts?after=" + percent_encoded(after), kPatience));
    TRIMTAB_TRY(const auto document, read_reply<api::CostPages>(body));
    const auto parts = parts_of(document);
    if (!parts.ok()) return not_understood(parts.error().message);
    TRIMTAB_TRY_STATUS(into.put_parts(*parts));
    if (!after.empty() && parts->next == after) return not_understood("a page names itself as the next one");
    after = parts->next;
  } while (!after.empty());
  return {};
}

json counts_json(const MergeCounts& counts, std::size_t costs) {
  const ContributionCounts& others = counts.contributed;
  return {{"new_batches", counts.batches},
          {"equal_batches", counts.known},
          {"contributed",
           {{"new", others.added}, {"renewed", others.renewed}, {"equal", others.equal}, {"older", others.older}}},
          {"costs", costs}};
}

std::string counts_text(const MergeCounts& counts) {
  const auto number = [](std::uint64_t count) { return std::to_string(count); };
  std::string text = number(counts.batches) + (counts.batches == 1 ? " new batch, " : " new batches, ") +
                     number(counts.known) + " that were there\n";
  const ContributionCounts& others = counts.contributed;
  if (others.added + others.renewed + others.equal + others.older == 0) return text;
  return text + "costs that others contributed: " + number(others.added) + " new, " + number(others.renewed) +
         " renewed, " + number(others.equal) + " equal, " + number(others.older) + " older than those here\n";
}

}  // namespace

Result<int> pull_costs(const CoordinatorClient& client, const std::string& path, bool as_json, Console& console) {
  // Before anything is asked for: a file that is none takes nothing.
  TRIMTAB_TRY(CostDatabase target, open_costs_to_write(path, console.err));
  const CopyDirectory directory;
  if (directory.path().empty())
    return unavailable("couldn't make a directory for the copy in the directory TMPDIR names");
  const std::string name = directory.path() + "/costs.db";
  {
    TRIMTAB_TRY(CostDatabase copied, CostDatabase::open(name, OpenMode::kCreate));
    const Status status = copy(client, copied);
    if (!status.ok()) return wrap("nothing of it was merged into " + path, status.error());
  }
  TRIMTAB_TRY(const MergeCounts counts, target.merge_from(name));
  TRIMTAB_TRY(const std::vector<CostRow> rows, target.rows());
  if (as_json) {
    console.out << json_text(counts_json(counts, rows.size())) << "\n";
    return 0;
  }
  console.out << client.address().host << ":" << client.address().port << ": " << counts_text(counts) << path
              << ": holds " << rows.size() << " costs\n";
  return 0;
}

}  // namespace trimtab::cli

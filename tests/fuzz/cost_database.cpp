// A cost database that somebody else wrote: read, merged into one of ours, and what was merged read again.

#include "schema/cost_database.hpp"
#include "base/check.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

void read_all(const CostDatabase& database) {
  const auto rows = database.rows();
  (void)fuzz::judge(rows);
  const auto fingerprints = database.fingerprints();
  if (!fuzz::judge(fingerprints)) return;
  for (const Fingerprint& fingerprint : *fingerprints) (void)fuzz::judge(database.costs(hash(fingerprint)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::ScratchDirectory directory;
  directory.clear();
  directory.write("theirs.db", fuzz::text_of(data, size));
  const std::string theirs = directory.path() + "/theirs.db";
  {
    const auto database = CostDatabase::open(theirs, OpenMode::kReadOnly);
    if (fuzz::judge(database)) read_all(*database);
  }
  auto ours = CostDatabase::open(directory.path() + "/ours.db", OpenMode::kCreate);
  TRIMTAB_ASSERT(ours.ok(), "a database of our own can be made");
  const auto merged = ours->merge_from(theirs);
  if (!fuzz::judge(merged)) {
    const auto left = ours->rows();
    TRIMTAB_ASSERT(left.ok() && left->empty(), "a merge that failed has stored nothing");
    return 0;
  }
  // What was taken is ours now: it must be readable, and taking it again adds nothing.
  TRIMTAB_ASSERT(ours->rows().ok() && ours->fingerprints().ok(), "what was merged can be read");
  const auto again = ours->merge_from(theirs);
  TRIMTAB_ASSERT(again.ok() && again->batches == 0, "merging twice adds nothing");
  return 0;
}

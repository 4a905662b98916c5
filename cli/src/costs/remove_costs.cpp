#include "costs/share_costs.hpp"
#include "documents.hpp"
#include "json_text.hpp"
#include "schema/api/costs.hpp"
#include "schema/sharing/contributed_source.hpp"

namespace trimtab::cli {

namespace {

constexpr std::size_t kAtOnce = 10'000;

Result<int> say(const std::string& contributor, std::uint64_t removed, const std::string& where, bool as_json,
                Console& console) {
  if (removed == 0) return no(where + " holds no costs of contributor " + contributor);
  if (as_json) {
    console.out << json_text({{"contributor", contributor}, {"removed", removed}}) << "\n";
  } else {
    console.out << "removed " << removed << (removed == 1 ? " cost" : " costs") << " of contributor " << contributor
                << " from " << where << "\n";
  }
  return 0;
}

}  // namespace

Result<int> remove_costs(const std::string& contributor, const std::string& path, bool as_json, Console& console) {
  TRIMTAB_TRY_STATUS(check_contributor(contributor));
  {
    TRIMTAB_TRY(const ReadCosts probe, open_costs(path, console.err));  // one that is not there is not made
  }
  TRIMTAB_TRY(CostDatabase database, open_costs_to_write(path, console.err));
  std::uint64_t removed = 0;
  for (bool all = false; !all;) {
    TRIMTAB_TRY(const RemovedCosts some, database.remove_contributed(contributor, kAtOnce));
    removed += some.costs;
    all = some.all;
  }
  return say(contributor, removed, path, as_json, console);
}

Result<int> remove_costs(const std::string& contributor, const CoordinatorClient& client, bool as_json,
                         Console& console) {
  TRIMTAB_TRY_STATUS(check_contributor(contributor));
  std::uint64_t removed = 0;
  for (bool all = false; !all;) {
    const auto body = client.post("/v1/costs/remove", api::to_json(api::CostRemoval{contributor}));
    if (!body.ok()) return wrap("after " + std::to_string(removed) + " costs were removed", body.error());
    TRIMTAB_TRY(const auto answer, read_reply<api::RemovalAnswer>(*body));
    if (answer.removed == 0 && !answer.all) return not_understood("it removed nothing and says that there is more");
    removed += answer.removed;
    all = answer.all;
  }
  return say(contributor, removed, client.address().host + ":" + std::to_string(client.address().port), as_json,
             console);
}

}  // namespace trimtab::cli

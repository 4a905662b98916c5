#include <map>

#include "costs/share_costs.hpp"
#include "documents.hpp"
#include "json_text.hpp"
#include "schema/api/costs.hpp"
#include "schema/sharing/contributed_source.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

constexpr std::size_t kCostsOfPage = 1000;
// Of one request: well within what a coordinator takes, so that it is soon confirmed.
constexpr std::size_t kCostsOfRequest = 500;
constexpr std::size_t kBytesOfRequest = std::size_t{400} << 10;

// The coordinator sees who it is. Here it only matters whether anybody may contribute them.
constexpr const char* kAnybody = "me";

struct Place {
  std::string fingerprint;
  std::string source;
  auto operator<=>(const Place&) const = default;
};
using OriginCosts = std::map<Place, std::map<CostKey, Statistics>>;

class Push {
 public:
  Push(const CoordinatorClient& client, std::map<std::string, std::string> fingerprints, const std::string& hardware)
      : client_(client), fingerprints_(std::move(fingerprints)), hardware_(hardware) {}

  // Parts come as the database has them: an origin's follow each other.
  Status take(const CostPart& part) {
    if (part.origin != origin_) {
      TRIMTAB_TRY_STATUS(finish_origin());
      origin_ = part.origin;
    }
    if (part.folded != folded_) costs_.clear();  // somebody folded it meanwhile, and it begins anew
    folded_ = part.folded;
    for (const CostPart::Folded& one : part.costs) add(one.fingerprint, one.source, one.cost);
    for (const CostPart::Batch& batch : part.batches) {
      for (const Cost& cost : batch.costs) add(batch.fingerprint, batch.source, cost);
    }
    return {};
  }

  Status finish() {
    TRIMTAB_TRY_STATUS(finish_origin());
    return send();
  }

  [[nodiscard]] const api::PushAnswer& sum() const { return sum_; }
  [[nodiscard]] std::uint64_t confirmed() const {
    return sum_.added + sum_.renewed + sum_.equal + sum_.older + sum_.own;
  }
  [[nodiscard]] const std::map<std::string, std::uint64_t>& refused() const { return refused_; }

 private:
  void add(const std::string& fingerprint, const std::string& source, const Cost& cost) {
    if (!fingerprint.starts_with(hardware_)) return;
    costs_[{fingerprint, source}][cost.key].merge(cost.statistics);
  }

  // Why nobody may contribute these; empty: they may be.
  [[nodiscard]] std::string objection(const Place& place) const {
    if (!fingerprints_.contains(place.fingerprint))
      return "their hardware's fingerprint is not there or has another hash";
    const auto source = contributed_source(parse_cost_source(place.source), kAnybody);
    return source.ok() ? "" : source.error().message;
  }

  Status finish_origin() {
    for (const auto& [place, costs] : costs_) {
      if (const std::string why = objection(place); !why.empty()) {
        refused_[why] += costs.size();
        continue;
      }
      bool begun = false;
      for (const auto& [key, statistics] : costs) {
        if (const std::string why = why_not_contributed(key); !why.empty()) {
          ++refused_[why];
          continue;
        }
        if (is_full()) {
          TRIMTAB_TRY_STATUS(send());
          begun = false;
        }
        if (!std::exchange(begun, true)) begin(place);
        api::WholeCost& one = request_.batches.back().costs.emplace_back();
        one.key.json = to_json(key);
        one.statistics = statistics.encode();
        bytes_ += one.key.json.size() + one.statistics.size();
        ++count_;
      }
    }
    costs_.clear();
    return {};
  }

  [[nodiscard]] bool is_full() const { return count_ >= kCostsOfRequest || bytes_ >= kBytesOfRequest; }

  void begin(const Place& place) {
    const std::string& fingerprint = fingerprints_.at(place.fingerprint);
    request_.batches.push_back({origin_, {fingerprint}, place.source, {}});
    bytes_ += origin_.size() + fingerprint.size() + place.source.size();
  }

  Status send() {
    if (count_ == 0) return {};
    TRIMTAB_TRY(const std::string body, client_.post("/v1/costs", api::to_json(request_)));
    TRIMTAB_TRY(const auto answer, read_reply<api::PushAnswer>(body));
    sum_.contributor = answer.contributor;
    sum_.added += answer.added;
    sum_.renewed += answer.renewed;
    sum_.equal += answer.equal;
    sum_.older += answer.older;
    sum_.own += answer.own;
    for (const api::RefusedCosts& one : answer.refused) refused_[one.reason] += one.costs;
    request_ = {};
    count_ = bytes_ = 0;
    return {};
  }

  const CoordinatorClient& client_;
  std::map<std::string, std::string> fingerprints_;  // documents by hash
  std::string hardware_;
  std::string origin_;
  std::int64_t folded_ = 0;
  OriginCosts costs_;
  api::CostPush request_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  api::PushAnswer sum_;
  std::map<std::string, std::uint64_t> refused_;
};

json counts_json(const Push& push) {
  const api::PushAnswer& sum = push.sum();
  json refused = json::array();
  for (const auto& [reason, costs] : push.refused()) refused.push_back({{"reason", reason}, {"costs", costs}});
  return {{"contributor", sum.contributor},
          {"new", sum.added},
          {"renewed", sum.renewed},
          {"equal", sum.equal},
          {"older", sum.older},
          {"own", sum.own},
          {"refused", refused}};
}

std::string counts_text(const Push& push, const std::string& path, const std::string& where) {
  const api::PushAnswer& sum = push.sum();
  TextTable table({">costs", "what became of them"});
  const auto row = [&](std::uint64_t costs, const std::string& what) {
    if (costs > 0) table.add({std::to_string(costs), what});
  };
  row(sum.added, "new");
  row(sum.renewed, "renewed: they had more measurements than what was there");
  row(sum.equal, "equal to what is there");
  row(sum.older, "older than what is there, which stays");
  row(sum.own, "the cluster's own, which stay as it has them");
  for (const auto& [reason, costs] : push.refused()) row(costs, "refused: " + printable(reason));
  const std::string who = sum.contributor.empty() ? "" : " as contributor " + printable(sum.contributor);
  return path + " to " + where + who + "\n" + (table.empty() ? "no costs\n" : table.str());
}

Status push_all(const CostDatabase& database, Push& push) {
  std::string after;
  do {
    TRIMTAB_TRY(const CostParts page, database.parts_after(after, kCostsOfPage));
    for (const CostPart& part : page.parts) TRIMTAB_TRY_STATUS(push.take(part));
    after = page.next;
  } while (!after.empty());
  return push.finish();
}

}  // namespace

Result<int> push_costs(const CoordinatorClient& client, const std::string& path, const std::string& hardware,
                       bool as_json, Console& console) {
  TRIMTAB_TRY(const ReadCosts database, open_costs(path, console.err));
  TRIMTAB_TRY(const auto fingerprints, database->fingerprints());
  std::map<std::string, std::string> known;
  bool found = false;
  for (const Fingerprint& one : fingerprints) {
    known[hash(one)] = to_json(one);
    found = found || hash(one).starts_with(hardware);
  }
  if (!found && !hardware.empty()) {
    return bad_input("--hardware: " + path + " holds no costs of a fingerprint that begins with '" + hardware +
                     "'. 'trimtab db show " + path + "' lists those there are");
  }
  Push push(client, std::move(known), hardware);
  const Status pushed = push_all(*database, push);
  if (!pushed.ok()) {
    return wrap("of " + path + " " + std::to_string(push.confirmed()) +
                    " costs were confirmed, and pushing again doubles none of them",
                pushed.error());
  }
  const std::string where = client.address().host + ":" + std::to_string(client.address().port);
  console.out << (as_json ? json_text(counts_json(push), 2) + "\n" : counts_text(push, path, where));
  return push.confirmed() == 0 && !push.refused().empty() ? 1 : 0;
}

}  // namespace trimtab::cli

#include "api/cost_sharing.hpp"

#include <map>
#include <memory>
#include <utility>

#include "costs/cost_intake.hpp"
#include "schema/api/costs.hpp"
#include "schema/cost_database.hpp"
#include "schema/sharing/contributed_source.hpp"

namespace trimtab::coordinator {

namespace {

// Keys whose costs are in one page, and fingerprints.
constexpr std::size_t kCostKeysOfPage = 1000;
constexpr std::size_t kFingerprintsOfPage = 100;
constexpr std::size_t kCostsOfPart = 1000;
// Of a removal's one transaction: few enough that the loop does not wait for it.
constexpr std::size_t kRemovedAtOnce = 2000;
constexpr std::size_t kLongestStatistics = std::size_t{8} << 10;
constexpr std::size_t kMostReasons = 16;

net::HttpResponse get_fingerprints(const Call& call) {
  return in_turn(call, [database = call.services.costs.name(), after = argument(call, "after")] {
    return [database, after] {
      const auto costs = CostDatabase::open(database, OpenMode::kReadOnly);
      if (!costs.ok()) return failure(costs.error());
      auto page = costs->fingerprints_after(after, kFingerprintsOfPage + 1);
      if (!page.ok()) return failure(page.error());
      const bool is_last = page->size() <= kFingerprintsOfPage;
      if (!is_last) page->pop_back();
      return ok(fingerprints_document(*page, is_last));
    };
  });
}

using Refused = std::map<std::string, std::uint64_t>;

void refuse(Refused& refused, const std::string& reason, std::uint64_t costs) {
  const bool full = refused.size() >= kMostReasons && !refused.contains(reason);
  refused[full ? "other reasons" : reason] += costs;
}

Result<Cost> read_cost(const api::WholeCost& one) {
  if (one.key.json.size() > kLongestKey) {
    return bad_input("a key has at most " + std::to_string(kLongestKey) + " bytes");
  }
  if (one.statistics.size() > kLongestStatistics) {
    return bad_input("statistics have at most " + std::to_string(kLongestStatistics) + " bytes");
  }
  TRIMTAB_TRY(CostKey key, parse_cost_key(one.key.json));
  if (const std::string why = why_not_contributed(key); !why.empty()) return bad_input(why);
  auto statistics = Statistics::decode(one.statistics);
  if (!statistics.ok()) return wrap("statistics", statistics.error());
  if (statistics->empty()) return bad_input("they have no values");
  return Cost{std::move(key), std::move(statistics).value()};
}

Result<Fingerprint> read_fingerprint(const std::string& json) {
  if (json.size() > kLongestFingerprint) {
    return bad_input("a hardware fingerprint has at most " + std::to_string(kLongestFingerprint) + " bytes, found " +
                     std::to_string(json.size()));
  }
  return parse_fingerprint(json, "fingerprint");
}

Result<ContributedCosts> read_batch(const api::PushedCosts& batch, const std::string& contributor, Refused& refused) {
  TRIMTAB_TRY(const Fingerprint fingerprint, read_fingerprint(batch.fingerprint.json));
  TRIMTAB_TRY(const CostSource source, contributed_source(parse_cost_source(batch.source), contributor));
  ContributedCosts read{batch.origin, fingerprint, source, {}};
  for (const api::WholeCost& one : batch.costs) {
    auto cost = read_cost(one);
    if (cost.ok()) {
      read.costs.push_back(std::move(cost).value());
    } else {
      refuse(refused, cost.error().message, 1);
    }
  }
  return read;
}

// On the loop, which owns the database. Bounded, as what agents send is.
net::HttpResponse store(Services& services, const std::string& contributor, const ReadPush& push) {
  if (const Status room = services.for_costs.check_room(); !room.ok()) return failure(room.error());
  const auto counts = services.costs.contribute({contributor, services.clock.wall().count()}, push.costs);
  if (!counts.ok()) return failure(counts.error());
  api::PushAnswer answer{contributor, counts->added, counts->renewed, counts->equal, counts->older, counts->own, {}};
  for (const auto& [reason, costs] : push.refused) answer.refused.push_back({reason, costs});
  return ok(api::to_json(answer));
}

// Who nobody had to say, and all of them are the machine's own users.
std::string contributor_name(const Caller& caller) {
  return caller.name.empty() ? "somebody" : caller.name;
}

api::WholeCost whole(const Cost& cost) {
  return {"", "", {to_json(cost.key)}, cost.statistics.encode()};
}

api::OriginPart document_of(const CostPart& part) {
  api::OriginPart document{part.origin, part.folded, part.contributor, part.first_ns, part.last_ns, {}, {}};
  for (const CostPart::Folded& one : part.costs) {
    api::WholeCost& added = document.costs.emplace_back(whole(one.cost));
    added.fingerprint = one.fingerprint;
    added.source = one.source;
  }
  for (const CostPart::Batch& one : part.batches) {
    api::CostBatchPart& added =
        document.batches.emplace_back(api::CostBatchPart{one.number, one.fingerprint, one.source, {}});
    for (const Cost& cost : one.costs) added.costs.push_back(whole(cost));
  }
  return document;
}

std::string document_of(const CostParts& parts) {
  api::CostPages document;
  document.next = parts.next;
  for (const CostPart& part : parts.parts) document.parts.push_back(document_of(part));
  for (const Fingerprint& one : parts.fingerprints) document.fingerprints.push_back({hash(one), {to_json(one)}});
  return api::to_json(document);
}

}  // namespace

Result<ReadPush> read_push(const std::string& body, const std::string& contributor) {
  const auto push = api::parse<api::CostPush>(body);
  if (!push.ok()) return bad_input("costs to push: " + push.error().message);
  std::size_t costs = 0;
  for (const api::PushedCosts& batch : push->batches) costs += batch.costs.size();
  if (costs > kMostPushedCosts) {
    return bad_input("at most " + std::to_string(kMostPushedCosts) + " costs are taken at a time, found " +
                     std::to_string(costs) + ": push them in several requests");
  }
  ReadPush read;
  for (const api::PushedCosts& batch : push->batches) {
    auto one = read_batch(batch, contributor, read.refused);
    if (one.ok()) {
      read.costs.push_back(std::move(one).value());
    } else {
      refuse(read.refused, one.error().message, batch.costs.size());
    }
  }
  return read;
}

net::HttpResponse get_costs(const Call& call) {
  const auto found = call.request.query.find("fingerprint");
  if (found == call.request.query.end()) return get_fingerprints(call);
  const auto after = after_of(call);
  if (!after.ok()) return failure(after.error());
  return in_turn(call, [database = call.services.costs.name(), fingerprint = found->second, after = *after] {
    return [database, fingerprint, after] {
      const auto costs = CostDatabase::open(database, OpenMode::kReadOnly);
      if (!costs.ok()) return failure(costs.error());
      const auto page = costs->costs_page(fingerprint, after, kCostKeysOfPage);
      return page.ok() ? ok(costs_document(fingerprint, *page)) : failure(page.error());
    };
  });
}

net::HttpResponse get_cost_parts(const Call& call) {
  return in_turn(call, [database = call.services.costs.name(), after = argument(call, "after")] {
    return [database, after] {
      const auto costs = CostDatabase::open(database, OpenMode::kReadOnly);
      if (!costs.ok()) return failure(costs.error());
      const auto parts = costs->parts_after(after, kCostsOfPart);
      return parts.ok() ? ok(document_of(*parts)) : failure(parts.error());
    };
  });
}

net::HttpResponse take_costs(const Call& call) {
  if (call.request.body.size() > kMostPushedBytes) {
    return failure(413, "at most " + std::to_string(kMostPushedBytes) + " bytes of costs are taken at a time, found " +
                            std::to_string(call.request.body.size()) + ": push them in several requests");
  }
  const auto take = [&services = call.services, contributor = contributor_name(call.caller)](const auto& push) {
    return push.ok() ? store(services, contributor, *push) : failure(push.error());
  };
  const auto body = std::make_shared<std::string>(call.request.body);
  const std::string contributor = contributor_name(call.caller);
  if (call.services.answers == nullptr) return take(read_push(*body, contributor));
  return in_turn(call, [body, contributor, take]() -> AnswerWorker::Making {
    return [body, contributor, take] {
      const auto push = std::make_shared<Result<ReadPush>>(read_push(*body, contributor));
      net::HttpResponse response;
      response.later = [take, push](const net::HttpResponse::Answer& answer) { answer(take(*push)); };
      return response;
    };
  });
}

net::HttpResponse remove_costs(const Call& call) {
  const auto wanted = api::parse<api::CostRemoval>(call.request.body);
  if (!wanted.ok()) return failure(400, "costs to remove: " + wanted.error().message);
  if (const Status name = check_contributor(wanted->contributor); !name.ok()) return failure(name.error());
  const Status asked = order_asked(call, "remove costs of contributor " + wanted->contributor, "", 0);
  if (!asked.ok()) return failure(asked.error());
  const auto removed = call.services.costs.remove_contributed(wanted->contributor, kRemovedAtOnce);
  return removed.ok() ? ok(api::to_json(api::RemovalAnswer{removed->costs, removed->all})) : failure(removed.error());
}

}  // namespace trimtab::coordinator

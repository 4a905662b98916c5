// A copy of a cost database in pages, for who reads it over a network: origins in the order of their ids, of each its
// folded sums, then its batches. Each page is of one moment, the whole is not. What changes meanwhile is only added or
// folded, and an origin that was folded since its page before begins anew: so a copy never counts a batch twice, and
// what is missing in it comes with the next one.

#include <algorithm>
#include <limits>

#include "base/numbers.hpp"
#include "costs/cost_tables.hpp"
#include "documents/json_document.hpp"

namespace trimtab::cost_tables {

namespace {

// Where a page ended: "ORIGIN FOLDED costs FINGERPRINT KEY SOURCE" or "ORIGIN FOLDED batches NUMBER", or "ORIGIN" alone
// behind the last of an origin.
struct Place {
  std::int64_t origin = 0;
  std::int64_t folded = -1;  // -1: the origin is done
  CostPlace cost = {};
  std::int64_t number = -1;
  bool in_batches = false;
};

std::string text_of(const Place& place) {
  const std::string origin = std::to_string(place.origin);
  if (place.folded < 0) return origin;
  const std::string begin = origin + " " + std::to_string(place.folded);
  if (place.in_batches) return begin + " batches " + std::to_string(place.number);
  return begin + " costs " + place.cost.fingerprint + " " + std::to_string(place.cost.key) + " " + place.cost.source;
}

std::string cut(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  std::string word(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

Result<Place> parse_place(std::string_view text) {
  if (text.empty()) return Place{};
  const Error wrong = bad_input("after = " + quoted_text(text) + ": what the page before has as \"next\" is needed");
  std::string_view rest = text;
  Place place;
  const auto number = [&](std::int64_t& into) {
    const auto read = parse_number<std::int64_t>(cut(rest));
    into = read.value_or(0);
    return read.has_value();
  };
  if (!number(place.origin)) return wrong;
  if (rest.empty()) return place;
  if (!number(place.folded) || place.folded < 0) return wrong;
  const std::string where = cut(rest);
  place.in_batches = where == "batches";
  if (place.in_batches) return number(place.number) ? Result<Place>(place) : wrong;
  place.cost.fingerprint = cut(rest);
  if (where != "costs" || !number(place.cost.key)) return wrong;
  place.cost.source = rest;
  return place;
}

class Page {
 public:
  Page(const Database& database, std::size_t most) : database_(database), left_(static_cast<std::int64_t>(most)) {}

  Result<CostParts> run(const Place& after) {
    place_ = after;
    TRIMTAB_TRY(contributions_, read_contributions(database_));
    const bool goes_on = after.folded >= 0;
    std::string rest = goes_on ? "WHERE id >= ?" : "WHERE id > ?";
    TRIMTAB_TRY(const auto origins,
                database_.query_checked(origin_rows(), rest + " ORDER BY id LIMIT ?", {after.origin, kOrigins + 1}));
    bool more = origins.rows.size() + origins.damaged.size() > static_cast<std::size_t>(kOrigins);
    for (const Row& row : origins.rows) {
      if (left_ <= 0) {
        more = true;
        break;
      }
      TRIMTAB_TRY_STATUS(read_origin({as_integer(row[0]), as_integer(row[2]), "", as_text(row[1])}));
    }
    if (more || left_ <= 0) parts_.next = text_of(place_);
    TRIMTAB_TRY_STATUS(name_keys());
    TRIMTAB_TRY_STATUS(read_fingerprints());
    return std::move(parts_);
  }

 private:
  static constexpr std::int64_t kOrigins = 256;  // of one page

  Status read_origin(const Origin& origin) {
    if (place_.origin != origin.id || place_.folded != origin.folded) place_ = {origin.id, origin.folded};
    CostPart& part = parts_.parts.emplace_back(CostPart{origin.name, origin.folded});
    if (const auto found = contributions_.find(origin.id); found != contributions_.end()) {
      part.contributor = found->second.contributor;
      part.first_ns = found->second.first_ns;
      part.last_ns = found->second.last_ns;
    }
    if (!place_.in_batches) TRIMTAB_TRY_STATUS(read_costs(part));
    if (place_.in_batches) TRIMTAB_TRY_STATUS(read_batches(origin, part));
    return {};
  }

  Status read_costs(CostPart& part) {
    const std::int64_t wanted = left_;
    TRIMTAB_TRY(
        const auto found,
        database_.query_checked(cost_rows(),
                                "WHERE origin = ? AND (fingerprint, cost_key, source) > (?, ?, ?) ORDER BY "
                                "fingerprint, cost_key, source LIMIT ?",
                                {place_.origin, place_.cost.fingerprint, place_.cost.key, place_.cost.source, wanted}));
    for (const Row& row : found.rows) {
      place_.cost = {as_text(row[0]), as_integer(row[1]), as_text(row[2])};
      TRIMTAB_TRY(Statistics statistics, Statistics::decode(as_text(row[4])));
      keyed_.push_back({parts_.parts.size() - 1, false, 0, part.costs.size(), place_.cost.key});
      part.costs.push_back({place_.cost.fingerprint, place_.cost.source, {{}, std::move(statistics)}});
    }
    left_ -= static_cast<std::int64_t>(found.rows.size());
    place_.in_batches = static_cast<std::int64_t>(found.rows.size() + found.damaged.size()) < wanted;
    return {};
  }

  Status read_batches(const Origin& origin, CostPart& part) {
    while (left_ > 0) {
      TRIMTAB_TRY(const auto batches, next_batches(database_, origin, std::max(place_.number, std::int64_t{-1}),
                                                   std::numeric_limits<std::int64_t>::max()));
      if (batches.empty()) {
        place_ = {origin.id};
        return {};
      }
      for (const SingleBatch& batch : batches) {
        if (left_ <= 0) return {};
        const bool is_folded =
            batch.number != 0 && batch.number <= origin.folded;  // in a damaged file: it counts there
        if (!is_folded) TRIMTAB_TRY_STATUS(add(batch, part));
        place_.number = batch.number;
      }
    }
    return {};
  }

  Status add(const SingleBatch& batch, CostPart& part) {
    TRIMTAB_TRY(auto costs, decode_costs(batch.costs));
    left_ -= static_cast<std::int64_t>(costs.size()) + 1;
    CostPart::Batch& added =
        part.batches.emplace_back(CostPart::Batch{batch.number, batch.fingerprint, batch.source, {}});
    for (KeyedCost& cost : costs) {
      keyed_.push_back({parts_.parts.size() - 1, true, part.batches.size() - 1, added.costs.size(), cost.key});
      added.costs.push_back({{}, std::move(cost.statistics)});
    }
    return {};
  }

  // A cost whose key cannot be read says nothing: it is left out, by having no values.
  Status name_keys() {
    std::set<std::int64_t> ids;
    for (const Keyed& one : keyed_) ids.insert(one.key);
    TRIMTAB_TRY(const auto keys, read_keys_of(database_, ids));
    for (const Keyed& one : keyed_) {
      CostPart& part = parts_.parts[one.part];
      Cost& cost = one.in_batch ? part.batches[one.batch].costs[one.index] : part.costs[one.index].cost;
      const auto key = keys.find(one.key);
      if (key == keys.end()) cost.statistics = {};
      if (key != keys.end()) cost.key = key->second;
    }
    for (CostPart& part : parts_.parts) {
      std::erase_if(part.costs, [](const CostPart::Folded& one) { return one.cost.statistics.empty(); });
      for (CostPart::Batch& batch : part.batches) {
        std::erase_if(batch.costs, [](const Cost& one) { return one.statistics.empty(); });
      }
    }
    return {};
  }

  // Costs of hardware whose text cannot be read say nothing. They are left out: who reads the others is not refused.
  Status read_fingerprints() {
    std::set<std::string> named;
    std::set<std::string> readable;
    for (const CostPart& part : parts_.parts) {
      for (const CostPart::Folded& one : part.costs) named.insert(one.fingerprint);
      for (const CostPart::Batch& one : part.batches) named.insert(one.fingerprint);
    }
    for (const std::string& hash : named) {
      TRIMTAB_TRY(const auto found, database_.query_checked(fingerprint_rows(), "WHERE hash = ?", {hash}));
      if (found.rows.empty()) continue;
      auto text = parse_fingerprint(as_text(found.rows[0][1]), database_.name());
      if (!text.ok() || trimtab::hash(*text) != hash) continue;
      parts_.fingerprints.push_back(std::move(*text));
      readable.insert(hash);
    }
    for (CostPart& part : parts_.parts) {
      std::erase_if(part.costs, [&](const CostPart::Folded& one) { return !readable.contains(one.fingerprint); });
      for (CostPart::Batch& batch : part.batches) {
        if (!readable.contains(batch.fingerprint)) batch.costs.clear();
      }
    }
    return {};
  }

  // Where a cost of the page stands whose key is not read yet.
  struct Keyed {
    std::size_t part;
    bool in_batch;
    std::size_t batch;
    std::size_t index;
    std::int64_t key;
  };

  const Database& database_;
  std::int64_t left_;
  Place place_;
  std::map<std::int64_t, Contribution> contributions_;
  std::vector<Keyed> keyed_;
  CostParts parts_;
};

class Copy {
 public:
  explicit Copy(Database& database) : database_(database) {}

  Status put(const CostParts& parts) {
    for (const Fingerprint& one : parts.fingerprints) {
      TRIMTAB_TRY_STATUS(put_fingerprint(database_, hash(one), to_json(one)));
      fingerprints_.insert(hash(one));
    }
    std::set<CostKey> keys;
    for (const CostPart& part : parts.parts) {
      for (const CostPart::Folded& one : part.costs) keys.insert(canonical(one.cost.key));
      for (const CostPart::Batch& batch : part.batches) {
        for (const Cost& cost : batch.costs) keys.insert(canonical(cost.key));
      }
    }
    TRIMTAB_TRY(ids_, intern_keys(database_, keys));
    for (const CostPart& part : parts.parts) TRIMTAB_TRY_STATUS(put_part(part));
    return {};
  }

 private:
  Status put_part(const CostPart& part) {
    if (part.origin.empty() || part.folded < 0) return bad_input("a part of costs needs an origin");
    TRIMTAB_TRY(auto interned, intern_origins(database_, {part.origin}));
    Origin& origin = interned.at(part.origin);
    if (origin.folded != part.folded) TRIMTAB_TRY_STATUS(begin_anew(origin, part.folded));
    CostSums sums;
    for (const CostPart::Folded& one : part.costs) {
      TRIMTAB_TRY_STATUS(check(one.fingerprint, part));
      sums[{one.fingerprint, ids_.at(canonical(one.cost.key)), one.source}] = one.cost.statistics;
    }
    if (!part.contributor.empty()) return put_contributed(part, origin, sums);
    TRIMTAB_TRY_STATUS(put_costs(database_, origin, sums));
    return put_batches(part, origin);
  }

  Status begin_anew(Origin& origin, std::int64_t folded) {
    TRIMTAB_TRY_STATUS(database_.execute("DELETE FROM costs WHERE origin = ?", {origin.id}));
    TRIMTAB_TRY_STATUS(database_.execute("DELETE FROM batches WHERE origin = ?", {origin.id}));
    origin.folded = folded;
    return put_nodes(database_, {origin});
  }

  Status put_contributed(const CostPart& part, const Origin& origin, const CostSums& sums) {
    if (!is_contributed(part.origin) || !part.batches.empty()) {
      return bad_input("origin " + quoted_text(part.origin) + " is not one that somebody contributes");
    }
    const Contribution with{origin.id, part.contributor, part.first_ns, part.last_ns, 0};
    const auto counts = add_contributed(database_, with, sums);
    return counts.ok() ? Status() : counts.error();
  }

  Status put_batches(const CostPart& part, const Origin& origin) {
    std::vector<SingleBatch> batches;
    for (const CostPart::Batch& one : part.batches) {
      if (!one.costs.empty()) TRIMTAB_TRY_STATUS(check(one.fingerprint, part));
      if (one.number != 0 && one.number <= part.folded) {
        return bad_input("origin " + quoted_text(part.origin) + " has batch " + std::to_string(one.number) +
                         " twice: alone, and among the first " + std::to_string(part.folded));
      }
      SingleBatch batch{origin.id, one.number, one.fingerprint, one.source, ""};
      for (const Cost& cost : one.costs) append_cost(batch.costs, ids_.at(canonical(cost.key)), cost.statistics);
      batches.push_back(std::move(batch));
    }
    return insert_batches(database_, std::move(batches));
  }

  [[nodiscard]] Status check(const std::string& fingerprint, const CostPart& part) const {
    if (fingerprints_.contains(fingerprint)) return {};
    return bad_input("costs of origin " + quoted_text(part.origin) + " are of fingerprint " + quoted_text(fingerprint) +
                     ", whose text is not there or has another hash");
  }

  Database& database_;
  std::set<std::string> fingerprints_;
  std::map<CostKey, std::int64_t> ids_;
};

}  // namespace

Result<CostParts> parts_after(const Database& database, const std::string& after, std::size_t most) {
  TRIMTAB_TRY(const Place place, parse_place(after));
  return Page(database, most).run(place);
}

Status put_parts(Database& database, const CostParts& parts) {
  return Copy(database).put(parts);
}

}  // namespace trimtab::cost_tables

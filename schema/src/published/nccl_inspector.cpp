// What NCCL's Inspector plugin writes, as costs: a JSON object for each collective of each rank (NVIDIA/nccl,
// plugins/profiler/inspector: inspector_json.cc; format v4.0 and those that add to it).
//
// A rank's time contains waiting for those that come later, so a collective that all ranks tell takes as long as the
// shortest of them says (traces/collective_values.hpp says why).

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "documents/json_reader.hpp"
#include "documents/look_of_bytes.hpp"
#include "published/formats.hpp"
#include "published/measured.hpp"
#include "published/seen_costs.hpp"
#include "published/text_file.hpp"
#include "published/traces/json_objects.hpp"
#include "published/traces/trace_files.hpp"
#include "schema/hash64.hpp"
#include "schema/nccl.hpp"
#include "schema/traces/collective_kernel.hpp"
#include "schema/traces/traced_rank.hpp"

namespace trimtab::published {

namespace {

constexpr std::string_view kWanted =
    "expected what NCCL's Inspector plugin writes (NCCL_PROFILER_PLUGIN=libnccl-profiler-inspector.so, "
    "NCCL_INSPECTOR_ENABLE=1): an object with header, metadata and coll_perf for each collective";
constexpr std::size_t kMostCollectives = 16'000'000;
constexpr std::int64_t kLongestUs = std::int64_t{3600} * 1'000'000;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;
constexpr std::int64_t kMostRanks = 1 << 20;

// One object.
struct Record {
  std::string communicator;
  std::string host;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::int64_t nodes = 0;
  std::string primitive;
  bool between_two = false;
  std::int64_t sequence = 0;
  std::int64_t bytes = 0;  // a rank's input
  std::int64_t duration_us = 0;
  std::string algorithm;
  std::string protocol;
  bool by_gpu = true;  // its kernel's times, by the GPU's clock
};

template <std::uint32_t count>
std::string named(const nccl::Name (&names)[count], const JsonReader& of) {
  if (!of.present()) return "";
  const std::uint8_t index = nccl::index_of_theirs(names, of.text().c_str());
  return index < count ? names[index].ours : "";
}

std::string primitive_of(const std::string& function) {
  const std::string known = primitive_named(function == "All2All" ? "AlltoAll" : function);
  return communication_named(known) == TracedKind::kCollective ? "" : known;
}

Record read_record(JsonReader root) {
  Record record;
  const JsonReader header = root.at("header");
  record.communicator = header.at("id").text();
  record.ranks = header.at("n_ranks").integer32({1, kMostRanks, "a number of ranks"});
  record.rank = header.at("rank").integer32({0, kMostRanks, "a rank"});
  record.nodes = header.at("nnodes").integer({1, kMostRanks, "a number of nodes"});
  if (root.at("metadata").at("hostname").present()) record.host = root.at("metadata").at("hostname").text();
  record.between_two = !root.at("coll_perf").present() && root.at("p2p_perf").present();
  const std::string word = record.between_two ? "p2p" : "coll";
  const JsonReader perf = root.at(word + "_perf");
  record.primitive = primitive_of(perf.at(word).text());
  record.sequence = perf.at(word + "_sn").integer(kNonNegative);
  const std::int64_t message = perf.at(word + "_msg_size_bytes").integer({0, kMostBytes, "a number of bytes"});
  record.bytes = bytes_of_count(record.primitive, message, record.ranks);
  const double us = perf.at(word + "_exec_time_us").number();
  if (us > static_cast<double>(kLongestUs)) perf.at(word + "_exec_time_us").fail("microseconds, at most an hour");
  record.duration_us = static_cast<std::int64_t>(std::clamp(us, 0.0, static_cast<double>(kLongestUs)));
  record.algorithm = named(nccl::kAlgorithms, perf.at(word + "_algo"));
  record.protocol = named(nccl::kProtocols, perf.at(word + "_proto"));
  const JsonReader clock = perf.at(word + "_timing_source");
  record.by_gpu = !clock.present() || clock.text() == "kernel_gpu";
  return record;
}

class Inspected {
 public:
  Status take(const Record& record) {
    if (!record.by_gpu) return ++by_host_, Status{};
    if (record.primitive.empty()) return ++unknown_, Status{};
    if (record.ranks < 2 || record.bytes == 0 || record.duration_us == 0) return {};
    hosts_.insert(record.host);
    nodes_ = std::max(nodes_, record.nodes);
    // Of several nodes nobody says which two these are on, unless each has one rank.
    if (record.between_two && record.nodes > 1 && record.nodes != record.ranks) return ++nowhere_, Status{};
    if (record.between_two || !ends_together(record.primitive)) return keep(record), Status{};
    if (pending_.size() >= kMostCollectives) {
      return bad_input("holds more than " + std::to_string(kMostCollectives / 1'000'000) +
                       " million collectives; give fewer steps' files");
    }
    join(record);
    return {};
  }

  void was_cut(const std::string& path) { cut_.push_back(path); }

  Result<Published> result(const std::string& files) {
    for (auto& [key, pending] : pending_) {
      if (!pending.whole()) {
        for (const std::int64_t us : pending.all_us) keep(pending.first, us);
      } else {
        costs_[joined_source()][key_of(pending.first)].add(pending.shortest_us * 1000);
      }
    }
    if (costs_.empty()) return nothing(files);
    Fingerprint fingerprint;
    fingerprint.device["kind"] = "gpu";
    fingerprint.fabric = {{"nodes", std::to_string(nodes_)}};
    std::string hosts;
    for (const std::string& host : hosts_) hosts += host + "\n";
    fingerprint.environment["hosts"] = hash64_hex(hosts);
    Published published;
    published.costs = seen_profiles("nccl-inspector", fingerprint, costs_);
    published.remarks = remarks();
    return published;
  }

 private:
  struct Key {
    std::uint64_t communicator = 0;
    std::string_view primitive;
    std::int64_t sequence = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      const std::uint64_t primitive = std::hash<std::string_view>()(key.primitive);
      return nccl::spread(key.communicator ^ primitive ^ nccl::spread(static_cast<std::uint64_t>(key.sequence)));
    }
  };
  // What prices a collective.
  struct Facts {
    std::string_view primitive, algorithm, protocol;
    std::int64_t bytes = 0;
    std::int32_t ranks = 0;
    bool several = false;
    bool operator==(const Facts&) const = default;
  };
  struct Pending {
    Facts first;
    std::int64_t shortest_us = 0;
    std::vector<std::int64_t> all_us;
    std::vector<std::int32_t> ranks;
    bool contradicts = false;
    [[nodiscard]] bool whole() const { return !contradicts && static_cast<std::int32_t>(ranks.size()) == first.ranks; }
  };

  static CostSource joined_source() {
    return {CostSource::Kind::kImported, "", CostSource::Beside::kNotSaid, CostSource::Clock::kRanks};
  }
  static CostSource waiting_source() {
    return {CostSource::Kind::kImported, "", CostSource::Beside::kNotSaid, CostSource::Clock::kDevice, true};
  }

  // The few texts that occur, each once.
  std::string_view shared(const std::string& text) { return *texts_.insert(text).first; }
  Facts facts_of(const Record& record) {
    return {shared(record.primitive), shared(record.algorithm), shared(record.protocol), record.bytes, record.ranks,
            record.nodes > 1};
  }
  static CostKey key_of(const Facts& facts) {
    const bool transfer = facts.primitive == "send_recv";
    CostKey key = link_key(transfer ? CostKind::kPointToPoint : CostKind::kCollective, std::string(facts.primitive), "",
                           facts.bytes, transfer ? 0 : facts.ranks, facts.several);
    key.algorithm = facts.algorithm;
    key.protocol = facts.protocol;
    return canonical(std::move(key));
  }
  void keep(const Facts& facts, std::int64_t us) {
    costs_[waiting_source()][key_of(facts)].add(us * 1000);
    ++waiting_;
  }
  void keep(const Record& record) { keep(facts_of(record), record.duration_us); }

  void join(const Record& record) {
    const Facts facts = facts_of(record);
    const std::uint64_t communicator = hash64(record.communicator + "/" + std::to_string(record.ranks));
    const auto [entry, fresh] = pending_.try_emplace(Key{communicator, facts.primitive, record.sequence});
    Pending& pending = entry->second;
    if (fresh) pending.first = facts;
    if (std::ranges::find(pending.ranks, record.rank) != pending.ranks.end()) {
      ++repeated_;
      return;
    }
    pending.contradicts = pending.contradicts || !(pending.first == facts);
    pending.shortest_us = fresh ? record.duration_us : std::min(pending.shortest_us, record.duration_us);
    pending.all_us.push_back(record.duration_us);
    pending.ranks.push_back(record.rank);
    if (pending.whole()) pending.all_us = {};
  }

  [[nodiscard]] Error nothing(const std::string& files) const {
    if (by_host_ > 0) {
      return bad_input(files + ": all " + std::to_string(by_host_) +
                       " times are the host's, which say when a collective was handed out and not how long it took; "
                       "run with an NCCL whose profiler times kernels on the GPU (2.28 or later)");
    }
    return bad_input(files + ": no collective of two ranks or more; " + std::string(kWanted));
  }
  [[nodiscard]] std::vector<std::string> remarks() const {
    std::vector<std::string> all;
    const auto tell = [&all](std::size_t count, const std::string& what) {
      if (count > 0) all.push_back(std::to_string(count) + what);
    };
    tell(waiting_,
         " times contain waiting for other ranks, and count less than others; give the files of all ranks, and waiting "
         "can be told apart where all ranks tell a collective");
    tell(by_host_, " times are the host's, not of the collective, and are left out");
    tell(unknown_, " are of functions that no cost is of, and are left out");
    tell(nowhere_, " sends and receives are left out: the files do not say whether their two ranks share a node");
    for (const std::string& path : cut_) all.push_back(path + ": its last object is cut short and left out");
    tell(repeated_, " tell a rank's collective a second time, and are left out; give the files of one run");
    all.emplace_back("the files name neither GPU nor NCCL: --fingerprint HASH puts the costs under a node's own");
    return all;
  }

  std::set<std::string, std::less<>> texts_;
  std::unordered_map<Key, Pending, KeyHash> pending_;
  SeenCosts costs_;
  std::set<std::string> hosts_;
  std::vector<std::string> cut_;  // files
  std::int64_t nodes_ = 1;
  std::size_t waiting_ = 0;
  std::size_t by_host_ = 0;
  std::size_t unknown_ = 0;
  std::size_t nowhere_ = 0;
  std::size_t repeated_ = 0;
};

// The error has no file's name.
Status read_objects(ByteSource& source, const std::string& path, Inspected& inspected) {
  JsonObjects objects(source);
  std::size_t count = 0;
  while (true) {
    TRIMTAB_TRY(const std::optional<std::string> text, objects.next());
    if (!text) break;
    const std::string place = "line " + std::to_string(objects.line());
    TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(*text, place, ""));
    if (count++ == 0 && !document.root().at("header").present()) {
      return bad_input("another JSON document; " + std::string(kWanted));
    }
    const Record record = read_record(document.root());
    TRIMTAB_TRY_STATUS(document.status());
    TRIMTAB_TRY_STATUS(inspected.take(record));
  }
  if (!source.failure().empty()) return bad_input(source.failure());
  if (objects.is_cut()) inspected.was_cut(path);
  if (count == 0) return bad_input("no whole object in it; " + std::string(kWanted));
  return {};
}

Status read_file(const std::string& path, Inspected& inspected) {
  constexpr std::size_t kLooked = 4096;
  TRIMTAB_TRY(const auto source, ByteSource::open(path));
  const std::string look = look_of_bytes(source->peek(kLooked), path);
  if (!look.empty()) return bad_input(path + ": it is " + look + "; " + std::string(kWanted));
  const Status read = read_objects(*source, path, inspected);
  return read.ok() ? read : wrap(path, read.error());
}

}  // namespace

Result<Published> read_nccl_inspector(const std::vector<std::string>& paths) {
  TRIMTAB_TRY(
      const std::vector<std::string> files,
      trace_files(paths, {".log", ".json", ".jsonl", ".log.gz", ".json.gz", ".jsonl.gz"}, "files of NCCL Inspector"));
  Inspected inspected;
  for (const std::string& file : files) TRIMTAB_TRY_STATUS(read_file(file, inspected));
  return inspected.result(files.size() == 1 ? files.front() : std::to_string(files.size()) + " files");
}

}  // namespace trimtab::published

#include "ranks/rank_frame.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "processes/printable_text.hpp"
#include "schema/job_name.hpp"
#include "schema/step_number.hpp"

namespace trimtab::agent {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLargestRank = 1 << 20;
constexpr std::int64_t kLargestWorld = 65536;       // of a watched job, as of any other that the coordinator knows
constexpr std::int64_t kLargestLaunch = 1'000'000;  // of a watched job
constexpr std::size_t kMaxFactBytes = 128;
constexpr std::size_t kMostShapes = 8;
constexpr std::size_t kMostLinks = 64;
constexpr std::size_t kMostItems = 64;  // that are measured again at once
constexpr std::size_t kMostCostsOfItem = 2;
constexpr std::size_t kMostValuesOfCost = 16;
constexpr std::size_t kMaxNameBytes = 256;
constexpr std::size_t kMaxMessageBytes = 16 * 1024;
// Of one frame, whose fields are a few. Each is three bytes on the wire and some fifty in memory.
constexpr std::size_t kMostValues = 1024;

// Of any document, also one that is none: what could begin a value or a member, outside of texts.
bool has_too_many_values(std::string_view json) {
  std::size_t values = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size() && values <= kMostValues; ++i) {
    if (in_text && json[i] == '\\')
      ++i;
    else if (json[i] == '"')
      in_text = !in_text;
    else if (!in_text && (json[i] == ',' || json[i] == '[' || json[i] == '{'))
      ++values;
  }
  return values > kMostValues;
}

// Reads one frame's fields; remembers the first thing that was wrong.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  std::int64_t integer(const char* name, std::int64_t low, std::int64_t high = kLargest) {
    const auto found = json_.find(name);
    if (found == json_.end()) return fail(name, "is missing"), low;
    return checked(name, *found, low, high);
  }
  std::int64_t integer_or(const char* name, std::int64_t otherwise, std::int64_t low, std::int64_t high = kLargest) {
    const auto found = json_.find(name);
    return found == json_.end() || found->is_null() ? otherwise : checked(name, *found, low, high);
  }
  std::uint64_t epoch() { return static_cast<std::uint64_t>(integer("epoch", 0)); }
  std::int64_t step() { return integer("step", 0, kLargestStep); }

  std::optional<double> number(const char* name) {
    const auto found = json_.find(name);
    if (found == json_.end() || found->is_null()) return std::nullopt;
    if (!found->is_number()) return fail(name, "must be a number"), std::nullopt;
    const double value = found->get<double>();
    if (!std::isfinite(value)) return fail(name, "must be finite"), std::nullopt;
    return value;
  }

  std::string text(const char* name, std::size_t most) {
    const auto found = json_.find(name);
    if (found == json_.end()) return {};
    const auto* value = found->get_ptr<const std::string*>();
    if (value == nullptr) return fail(name, "must be a text"), std::string();
    if (value->size() > most) return fail(name, "must have at most " + std::to_string(most) + " bytes"), std::string();
    return printable_text(*value);
  }

  bool flag_or(const char* name, bool otherwise) {
    const auto found = json_.find(name);
    if (found == json_.end() || found->is_null()) return otherwise;
    if (!found->is_boolean()) return fail(name, "must be true or false"), otherwise;
    return found->get<bool>();
  }

  // What `read` makes of the object of this name; nothing where there is none.
  template <typename Read>
  auto object(const char* name, const Read& read) -> std::optional<decltype(read(std::declval<Fields&>()))> {
    const auto found = json_.find(name);
    if (found == json_.end() || found->is_null()) return std::nullopt;
    return element(name, *found, read);
  }
  template <typename Read>
  auto list(const char* name, std::size_t most, const Read& read)
      -> std::vector<decltype(read(std::declval<Fields&>()))> {
    std::vector<decltype(read(std::declval<Fields&>()))> all;
    const auto found = json_.find(name);
    if (found == json_.end() || found->is_null()) return all;
    if (!found->is_array() || found->size() > most) {
      return fail(name, "must be a list of at most " + std::to_string(most)), all;
    }
    for (const Json& one : *found) {
      if (auto value = element(name, one, read)) all.push_back(std::move(*value));
    }
    return all;
  }

  // Lists of whole numbers above 0, as of costs.
  std::vector<std::vector<std::int64_t>> times(const char* name) {
    std::vector<std::vector<std::int64_t>> all;
    const auto found = json_.find(name);
    if (found == json_.end() || found->is_null()) return all;
    if (!found->is_array() || found->size() > kMostCostsOfItem) {
      return fail(name, "must be a list of at most " + std::to_string(kMostCostsOfItem) + " lists"), all;
    }
    for (const Json& of_cost : *found) {
      if (!of_cost.is_array() || of_cost.size() > kMostValuesOfCost) {
        return fail(name, "must be lists of at most " + std::to_string(kMostValuesOfCost) + " numbers"), all;
      }
      all.emplace_back();
      for (const Json& one : of_cost) all.back().push_back(checked(name, one, 0, kLargest));
    }
    return all;
  }

  void fail(const std::string& name, const std::string& what) {
    if (error_.empty()) error_ = "field '" + name + "' " + what;
  }
  [[nodiscard]] bool has(const char* name) const {
    const auto found = json_.find(name);
    return found != json_.end() && !found->is_null();
  }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  template <typename Read>
  auto element(const char* name, const Json& value, const Read& read)
      -> std::optional<decltype(read(std::declval<Fields&>()))> {
    if (!value.is_object()) return fail(name, "must be a JSON object"), std::nullopt;
    Fields inside(value);
    auto made = read(inside);
    if (!inside.error_.empty() && error_.empty()) error_ = "in field '" + std::string(name) + "': " + inside.error_;
    return made;
  }

  std::int64_t checked(const char* name, const Json& value, std::int64_t low, std::int64_t high) {
    const bool unsigned_beyond = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{kLargest};
    if (!value.is_number_integer() || unsigned_beyond || value.get<std::int64_t>() < low ||
        value.get<std::int64_t>() > high) {
      fail(name, "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high));
      return low;
    }
    return value.get<std::int64_t>();
  }

  const Json& json_;
  std::string error_;
};

std::optional<std::uint32_t> read_rank(Fields& fields) {
  const auto rank = fields.integer("rank", -1, kLargestRank);
  return rank < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(rank));
}

void check_version(Fields& fields) {
  if (fields.integer("version", 0) != 1)
    fields.fail("version", "must be 1: this agent speaks version 1 of the protocol");
}

// The job's name becomes part of paths.
void check_watched(Fields& f, HelloFrame& hello) {
  if (!is_job_name(hello.job)) {
    f.fail("job", "must be 1 to 64 letters, digits, dots, dashes and underscores, not only dots");
  }
  const auto world_size = static_cast<std::uint32_t>(f.integer("world_size", 1, kLargestWorld));
  if (!hello.rank || *hello.rank >= world_size) f.fail("rank", "must be less than world_size");
  hello.local_rank = static_cast<std::uint32_t>(f.integer_or("local_rank", 0, 0, kLargestRank));
  hello.launch = static_cast<std::uint64_t>(f.integer_or("launch", 1, 1, kLargestLaunch));
}

RankFrame read_hello(Fields& f) {
  check_version(f);
  HelloFrame hello{f.integer("pid", 1),
                   f.text("job", kMaxNameBytes),
                   read_rank(f),
                   static_cast<std::uint32_t>(f.integer_or("world_size", 1, 1, kLargestRank)),
                   f.epoch(),
                   f.step(),
                   f.integer_or("groups_ns", 0, 0),
                   f.integer_or("build_ns", 0, 0)};
  hello.watched = f.flag_or("watched", false);
  if (hello.watched) check_watched(f, hello);
  hello.measures = f.flag_or("measures", false);
  return hello;
}

RankFrame read_ring(Fields& f) {
  check_version(f);
  return RingFrame{f.integer("pid", 1), f.text("job", kMaxNameBytes), read_rank(f),
                   static_cast<std::uint64_t>(f.integer_or("launch", 0, 0)), f.text("variant", kMaxNameBytes)};
}

wire::StepParts read_parts(Fields& f) {
  wire::StepParts parts;
  parts.set_data_ns(f.integer_or("data_ns", 0, 0));
  parts.set_forward_ns(f.integer_or("forward_ns", 0, 0));
  parts.set_backward_ns(f.integer_or("backward_ns", 0, 0));
  parts.set_recompute_ns(f.integer_or("recompute_ns", 0, 0));
  parts.set_optimizer_ns(f.integer_or("optimizer_ns", 0, 0));
  parts.set_communication_ns(f.integer_or("communication_ns", 0, 0));
  parts.set_aside_ns(f.integer_or("aside_ns", 0, 0));
  if (const std::int64_t stolen = f.integer_or("stolen_ns", -1, 0); stolen >= 0) parts.set_stolen_ns(stolen);
  return parts;
}

RankFrame read_step(Fields& f) {
  wire::Step step;
  step.set_step(f.step());
  step.set_epoch(f.epoch());
  step.set_wall_ns(f.integer("wall_ns", 0));
  step.set_cpu_ns(f.integer_or("cpu_ns", 0, 0));
  step.set_loss(f.number("loss").value_or(std::numeric_limits<double>::quiet_NaN()));
  step.set_gradient_norm(f.number("gradient_norm").value_or(0));
  step.set_samples(f.text("samples", kMaxNameBytes));
  step.set_peak_bytes(f.integer_or("peak_bytes", 0, 0));
  step.set_preparations(f.integer_or("preparations", 0, 0));
  step.set_not_finite(f.text("not_finite", kMaxNameBytes));
  if (auto parts = f.object("parts", read_parts)) *step.mutable_parts() = std::move(*parts);
  step.set_microbatches(f.integer_or("microbatches", 0, 0));
  step.set_count(f.integer_or("count", 0, 0));
  step.set_tokens(f.integer_or("tokens", 0, 0));
  return step;
}

Json read_shape(Fields& f) {
  Json shape{{"kind", f.text("kind", kMaxNameBytes)}};
  const auto known = {"linear", "conv", "attention"};
  if (std::ranges::find(known, shape["kind"]) == std::end(known)) {
    f.fail("kind", "must be linear, conv or attention");
  }
  for (const char* name : {"m", "n", "k", "count"}) shape[name] = f.integer(name, 0);
  return shape;
}

Json read_link(Fields& f) {
  Json link;
  for (const char* name : {"from", "to"}) link[name] = f.text(name, kMaxNameBytes);
  for (const char* name : {"bytes", "busy_ns"}) link[name] = f.integer(name, 0);
  return link;
}

RankFrame read_facts(Fields& f) {
  Json facts = Json::object();
  for (const char* name : {"framework", "torch", "device", "device_name", "dtype", "sharding", "schedule"}) {
    if (f.has(name)) facts[name] = f.text(name, kMaxFactBytes);
  }
  for (const char* name :
       {"parameters", "active_parameters", "layers", "checkpointed_layers", "batch_size", "accumulation",
        "reduced_microbatches", "sequence_length", "workers", "tensor_parallel", "context_parallel", "expert_parallel",
        "stages", "stage", "virtual_stages", "memory_used_bytes", "memory_total_bytes"}) {
    if (f.has(name)) facts[name] = f.integer(name, 0);
  }
  if (f.has("compiled")) facts["compiled"] = f.flag_or("compiled", false);
  if (f.has("shapes")) facts["shapes"] = f.list("shapes", kMostShapes, read_shape);
  if (f.has("links")) facts["links"] = f.list("links", kMostLinks, read_link);
  wire::Facts told;
  told.set_facts_json(facts.dump(-1, ' ', false, Json::error_handler_t::replace));
  return told;
}

RankFrame read_ack(Fields& f) {
  wire::PlanAck ack;
  ack.set_epoch(f.epoch());
  ack.set_step(f.step());
  return ack;
}

RankFrame read_refuse(Fields& f) {
  wire::PlanRefuse refusal;
  refusal.set_epoch(f.epoch());
  refusal.set_reason(f.text("reason", kMaxNameBytes));
  refusal.set_message(f.text("message", kMaxMessageBytes));
  return refusal;
}

RankFrame read_active(Fields& f) {
  wire::PlanActive active;
  active.set_epoch(f.epoch());
  active.set_step(f.step());
  active.set_switch_ns(f.integer_or("switch_ns", 0, 0));
  active.set_peak_bytes(f.integer_or("peak_bytes", 0, 0));
  active.set_save_ns(f.integer_or("save_ns", 0, 0));
  active.set_move_ns(f.integer_or("move_ns", 0, 0));
  active.set_groups_ns(f.integer_or("groups_ns", 0, 0));
  active.set_build_ns(f.integer_or("build_ns", 0, 0));
  return active;
}

RankFrame read_failed(Fields& f) {
  wire::PlanFailed failure;
  failure.set_epoch(f.epoch());
  failure.set_step(f.step());
  failure.set_reason(f.text("reason", kMaxNameBytes));
  failure.set_message(f.text("message", kMaxMessageBytes));
  return failure;
}

wire::MeasuredItem read_item(Fields& f) {
  wire::MeasuredItem item;
  item.set_item(static_cast<std::uint32_t>(f.integer("item", 0, kMostItems)));
  item.set_error(f.text("error", kMaxNameBytes));
  for (const auto& values : f.times("values")) item.add_costs()->mutable_values()->Add(values.begin(), values.end());
  return item;
}

RankFrame read_measured(Fields& f) {
  wire::Measured measured;
  measured.set_number(static_cast<std::uint64_t>(f.integer("number", 1)));
  measured.set_step(f.step());
  measured.set_took_ns(f.integer("took_ns", 0));
  for (auto& item : f.list("items", kMostItems, read_item)) *measured.add_items() = std::move(item);
  measured.set_error(f.text("error", kMaxMessageBytes));
  return measured;
}

RankFrame read_report(Fields& f) {
  ReportFrame frame{f.text("name", kMaxNameBytes), 0};
  if (frame.name.empty()) f.fail("name", "is missing");
  const auto value = f.number("value");
  if (!value) f.fail("value", "is missing");
  frame.value = value.value_or(0);
  return frame;
}

RankFrame read_bye(Fields& f) {
  wire::Bye bye;
  bye.set_step(f.integer_or("step", 0, 0, kLargestStep));
  return bye;
}

RankFrame read_slot(Fields& f) {
  check_version(f);
  return SlotFrame{f.integer("pid", 1), f.text("job", kMaxNameBytes),
                   static_cast<std::uint32_t>(f.integer("local_rank", 0, kLargestRank)),
                   static_cast<std::uint64_t>(f.integer("launch", 1)), f.text("variant", kMaxNameBytes)};
}

RankFrame read_launcher(Fields& f) {
  check_version(f);
  return LauncherFrame{f.integer("pid", 1), f.text("job", kMaxNameBytes),
                       static_cast<std::uint64_t>(f.integer("launch", 1)), f.text("variant", kMaxNameBytes)};
}

RankFrame read_submission(Fields& f) {
  SubmissionFrame frame{f.text("state", kMaxNameBytes), f.text("message", kMaxMessageBytes), false};
  if (frame.state.empty()) f.fail("state", "is missing");
  frame.ended = frame.state != "queued" && frame.state != "started";
  return frame;
}

using Reader = RankFrame (*)(Fields&);
const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> kReaders{
      {"hello", read_hello},        {"ring", read_ring},          {"step", read_step},
      {"plan_ack", read_ack},       {"plan_refuse", read_refuse}, {"plan_active", read_active},
      {"plan_failed", read_failed}, {"report", read_report},      {"bye", read_bye},
      {"slot", read_slot},          {"launcher", read_launcher},  {"submission", read_submission},
      {"facts", read_facts},        {"measured", read_measured}};
  return kReaders;
}

}  // namespace

Result<RankFrame> parse_rank_frame(std::string_view json) {
  if (has_too_many_values(json)) {
    return bad_input("a frame must have at most " + std::to_string(kMostValues) + " values, but one of " +
                     std::to_string(json.size()) + " bytes has more. Speak to the agent through Trimtab's client");
  }
  const Json document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded() || !document.is_object()) return bad_input("a frame must be a JSON object");
  Fields fields(document);
  const std::string type = fields.text("type", kMaxNameBytes);
  const auto reader = readers().find(type);
  if (reader == readers().end()) return bad_input("there is no frame of type '" + type + "'");
  RankFrame frame = reader->second(fields);
  if (!fields.error().empty()) return bad_input("frame '" + type + "': " + fields.error());
  return frame;
}

std::string welcome_frame(const std::string& node) {
  return Json{{"type", "welcome"}, {"version", 1}, {"node", node}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string plan_propose_frame(std::uint64_t epoch, const std::string& plan_json, bool incumbent,
                               const std::string& target_config) {
  return R"({"type":"plan_propose","epoch":)" + std::to_string(epoch) + (incumbent ? R"(,"incumbent":true)" : "") +
         R"(,"plan":)" + plan_json + (target_config.empty() ? "" : R"(,"target_config":)" + target_config) + "}";
}

std::string plan_commit_frame(std::uint64_t epoch, std::int64_t step) {
  return Json{{"type", "plan_commit"}, {"epoch", epoch}, {"step", step}}.dump();
}

std::string plan_cancel_frame(std::uint64_t epoch) {
  return Json{{"type", "plan_cancel"}, {"epoch", epoch}}.dump();
}

std::string stop_frame(std::int64_t step) {
  return Json{{"type", "stop"}, {"step", step}}.dump();
}

std::string measure_frame(std::uint64_t number, const std::string& request_json) {
  Json frame = Json::parse(request_json);
  frame["type"] = "measure";
  frame["number"] = number;
  return frame.dump();
}

std::string measure_cancel_frame(std::uint64_t number) {
  return Json{{"type", "measure_cancel"}, {"number", number}}.dump();
}

std::string run_frame(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment,
                      const std::string& working_directory, const std::string& log) {
  return Json{{"type", "run"},
              {"arguments", arguments},
              {"environment", environment},
              {"working_directory", working_directory},
              {"log", log}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string refused_frame(const std::string& message) {
  return Json{{"type", "refused"}, {"message", message}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trimtab::agent

#include "ranks/rank_frame.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "processes/printable_text.hpp"
#include "schema/step_number.hpp"

namespace trimtab::agent {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLargestRank = 1 << 20;
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

  void fail(const std::string& name, const std::string& what) {
    if (error_.empty()) error_ = "field '" + name + "' " + what;
  }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
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

RankFrame read_hello(Fields& f) {
  check_version(f);
  return HelloFrame{f.integer("pid", 1),
                    f.text("job", kMaxNameBytes),
                    read_rank(f),
                    static_cast<std::uint32_t>(f.integer_or("world_size", 1, 1, kLargestRank)),
                    f.epoch(),
                    f.step(),
                    f.integer_or("groups_ns", 0, 0),
                    f.integer_or("build_ns", 0, 0)};
}

RankFrame read_ring(Fields& f) {
  check_version(f);
  return RingFrame{f.integer("pid", 1), f.text("job", kMaxNameBytes), read_rank(f),
                   static_cast<std::uint64_t>(f.integer_or("launch", 0, 0)), f.text("variant", kMaxNameBytes)};
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
  return step;
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
      {"slot", read_slot},          {"launcher", read_launcher},  {"submission", read_submission}};
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

std::string plan_propose_frame(std::uint64_t epoch, const std::string& plan_json, bool incumbent) {
  return R"({"type":"plan_propose","epoch":)" + std::to_string(epoch) + (incumbent ? R"(,"incumbent":true)" : "") +
         R"(,"plan":)" + plan_json + "}";
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
